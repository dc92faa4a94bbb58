// A peer that waits to be dialed, until it is killed: node listen.mjs SECURITY
//
// Prints its address.

import { startPeer } from './peer.mjs'

const [security] = process.argv.slice(2)
const peer = await startPeer({ security, listen: ['/ip4/127.0.0.1/tcp/0'] })
console.log(peer.getMultiaddrs()[0].toString())
