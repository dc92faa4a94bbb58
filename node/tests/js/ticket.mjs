// Reads a ticket as docs/ticket.md describes it.

import { publicKeyFromRaw } from '@libp2p/crypto/keys'
import { peerIdFromMultihash, peerIdFromPublicKey } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { blake3 } from '@noble/hashes/blake3.js'
import { base32 } from 'multiformats/bases/base32'
import { decode as decodeMultihash } from 'multiformats/hashes/digest'

const PREFIX = 'ketch1'
const VERSION = 1
const CHECKSUM_BYTES = 4
const FLAGS = { multihash: 1, expires: 2 }
const KEY_BYTES = 32
const SECRET_BYTES = 16

/** The peer to dial, its addresses in the order in which to try them, and the secret that it expects. */
export function readTicket (line) {
  const text = line.replace(/[\s"']/g, '').toLowerCase()
  if (!text.startsWith(PREFIX)) throw new Error('this is no ticket')
  return readBody(openEnvelope(base32.baseDecode(text.slice(PREFIX.length))))
}

function openEnvelope (envelope) {
  const length = new DataView(envelope.buffer, envelope.byteOffset).getUint16(1)
  if (envelope.length !== length) throw new Error(`the ticket is cut short: ${envelope.length} of ${length} bytes`)
  const checked = envelope.subarray(0, -CHECKSUM_BYTES)
  if (!Buffer.from(blake3(checked)).subarray(0, CHECKSUM_BYTES).equals(envelope.subarray(-CHECKSUM_BYTES))) {
    throw new Error('the ticket has a typo')
  }
  if (envelope[0] !== VERSION) throw new Error(`the ticket is of version ${envelope[0]}`)
  return checked.subarray(3)
}

function readBody (body) {
  let at = 0
  const take = (length) => {
    if (at + length > body.length) throw new Error('the ticket was made wrongly: its body ends early')
    at += length
    return body.subarray(at - length, at)
  }
  const takeCounted = () => take(take(1)[0])

  const flags = take(1)[0]
  if ((flags & ~(FLAGS.multihash | FLAGS.expires)) !== 0) throw new Error(`the ticket has unknown flags: ${flags}`)
  const peer = (flags & FLAGS.multihash) !== 0
    ? peerIdFromMultihash(decodeMultihash(takeCounted()))
    : peerIdFromPublicKey(publicKeyFromRaw(take(KEY_BYTES)))
  const secret = take(SECRET_BYTES)
  if ((flags & FLAGS.expires) !== 0) take(8) // the sender refuses what has expired
  const addresses = []
  while (at < body.length) addresses.push(...readAddress(takeCounted(), peer))
  return { peer, secret, addresses }
}

// An address of a protocol that is unknown here is left out.
function readAddress (bytes, peer) {
  try {
    return [multiaddr(bytes).encapsulate(`/p2p/${peer}`)]
  } catch {
    return []
  }
}
