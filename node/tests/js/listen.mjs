// A peer that waits to be dialed, until it is killed: node listen.mjs SECURITY [RELAY]
//
// It listens on loopback, or by a reservation at the relay with this address. Prints its own address.

import { startPeer } from './peer.mjs'

const [security, relay] = process.argv.slice(2)
const listen = relay === undefined ? '/ip4/127.0.0.1/tcp/0' : `${relay}/p2p-circuit`
const peer = await startPeer({ security, listen: [listen] })
while (peer.getMultiaddrs().length === 0) {
  await new Promise((resolve) => peer.addEventListener('self:peer:update', resolve, { once: true }))
}
console.log(peer.getMultiaddrs()[0].toString())
