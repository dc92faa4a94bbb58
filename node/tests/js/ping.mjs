// Dials a peer and says who it is: node ping.mjs ADDRESS SECURITY
//
// Prints, as JSON, what the peer says of itself by identify, and how long a ping took.

import { multiaddr } from '@multiformats/multiaddr'

import { startPeer } from './peer.mjs'

const [address, security] = process.argv.slice(2)
const peer = await startPeer({ security })
const identified = new Promise((resolve) => peer.addEventListener('peer:identify', ({ detail }) => {
  if (address.endsWith(`/${detail.peerId}`)) resolve(detail)
}))
const { encryption, remotePeer } = await peer.dial(multiaddr(address))
const pingMs = await peer.services.ping.ping(remotePeer)
const { agentVersion, protocols } = await identified
console.log(JSON.stringify({ agentVersion, protocols, encryption, ping_ms: pingMs }))
await peer.stop()
