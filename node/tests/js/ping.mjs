// Dials a peer and says who it is: node ping.mjs ADDRESS SECURITY
//
// Prints, as JSON, what the peer says of itself by identify, and how long a ping took.

import { multiaddr } from '@multiformats/multiaddr'

import { startPeer } from './peer.mjs'

const [address, security] = process.argv.slice(2)
const peer = await startPeer({ security })
const identified = Promise.withResolvers()
peer.addEventListener('peer:identify', ({ detail }) => identified.resolve(detail))
const { encryption, remotePeer } = await peer.dial(multiaddr(address))
const pingMs = await peer.services.ping.ping(remotePeer)
const { agentVersion, protocols } = await identified.promise
console.log(JSON.stringify({ agentVersion, protocols, encryption, ping_ms: pingMs }))
await peer.stop()
