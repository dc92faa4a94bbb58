// A js-libp2p peer over TCP, as others would build one: nothing here is ketch's.

import { circuitRelayTransport } from '@libp2p/circuit-relay-v2'
import { identify } from '@libp2p/identify'
import { noise } from '@libp2p/noise'
import { ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { tls } from '@libp2p/tls'
import { yamux } from '@libp2p/yamux'

import './node20.mjs'

const { createLibp2p } = await import('libp2p')

const SECURITY = { tls, noise }

/** Starts a peer that encrypts by `security`: `tls` or `noise`. It listens on `listen`, on nothing by default. */
export function startPeer ({ security = 'tls', listen = [] } = {}) {
  return createLibp2p({
    addresses: { listen },
    transports: [tcp(), circuitRelayTransport()],
    connectionEncrypters: [SECURITY[security]()],
    streamMuxers: [yamux()],
    services: { identify: identify(), ping: ping() }
  })
}
