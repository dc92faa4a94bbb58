// Chaining values of subtrees of BLAKE3 (its paper, section 2), which libraries keep to themselves.

export const CHUNK_BYTES = 1024

const BLOCK_BYTES = 64
const BLOCK_WORDS = 16
const VALUE_WORDS = 8
const IV = Uint32Array.of(
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19)
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
const ROUNDS = orders(7)
const FLAG = { chunkStart: 1, chunkEnd: 2, parent: 4 }

/** The chaining value (32 bytes) of the subtree over `bytes`, whose first chunk is number `firstChunk`. */
export function chainingValue (bytes, firstChunk) {
  const value = Buffer.alloc(4 * VALUE_WORDS)
  subtree(bytes, firstChunk).forEach((word, index) => value.writeUInt32LE(word, 4 * index))
  return value
}

function subtree (bytes, firstChunk) {
  const chunks = Math.ceil(bytes.length / CHUNK_BYTES)
  if (chunks <= 1) return chunk(bytes, firstChunk)
  const leftChunks = 2 ** Math.floor(Math.log2(chunks - 1))
  const children = new Uint32Array(2 * VALUE_WORDS)
  children.set(subtree(bytes.subarray(0, leftChunks * CHUNK_BYTES), firstChunk))
  children.set(subtree(bytes.subarray(leftChunks * CHUNK_BYTES), firstChunk + leftChunks), VALUE_WORDS)
  return compress(IV, children, 0, BLOCK_BYTES, FLAG.parent)
}

function chunk (bytes, number) {
  let value = IV
  for (let at = 0; at === 0 || at < bytes.length; at += BLOCK_BYTES) {
    const block = bytes.subarray(at, at + BLOCK_BYTES)
    const start = at === 0 ? FLAG.chunkStart : 0
    const end = at + BLOCK_BYTES >= bytes.length ? FLAG.chunkEnd : 0
    value = compress(value, blockWords(block), number, block.length, start | end)
  }
  return value
}

function blockWords (block) {
  const words = new Uint32Array(BLOCK_WORDS)
  block.forEach((byte, at) => { words[at >> 2] |= byte << (8 * (at & 3)) })
  return words
}

function compress (value, words, counter, length, flags) {
  const state = new Uint32Array(BLOCK_WORDS)
  state.set(value)
  state.set(IV.subarray(0, 4), 8)
  state[12] = counter % 2 ** 32
  state[13] = Math.floor(counter / 2 ** 32)
  state[14] = length
  state[15] = flags
  for (const order of ROUNDS) mixRound(state, words, order)
  for (let index = 0; index < VALUE_WORDS; index++) state[index] ^= state[index + VALUE_WORDS]
  return state.subarray(0, VALUE_WORDS)
}

// The columns, then the diagonals.
function mixRound (state, words, order) {
  mix(state, 0, 4, 8, 12, words[order[0]], words[order[1]])
  mix(state, 1, 5, 9, 13, words[order[2]], words[order[3]])
  mix(state, 2, 6, 10, 14, words[order[4]], words[order[5]])
  mix(state, 3, 7, 11, 15, words[order[6]], words[order[7]])
  mix(state, 0, 5, 10, 15, words[order[8]], words[order[9]])
  mix(state, 1, 6, 11, 12, words[order[10]], words[order[11]])
  mix(state, 2, 7, 8, 13, words[order[12]], words[order[13]])
  mix(state, 3, 4, 9, 14, words[order[14]], words[order[15]])
}

function mix (state, a, b, c, d, x, y) {
  state[a] += state[b] + x
  state[d] = rotateRight(state[d] ^ state[a], 16)
  state[c] += state[d]
  state[b] = rotateRight(state[b] ^ state[c], 12)
  state[a] += state[b] + y
  state[d] = rotateRight(state[d] ^ state[a], 8)
  state[c] += state[d]
  state[b] = rotateRight(state[b] ^ state[c], 7)
}

function rotateRight (word, bits) {
  return (word >>> bits) | (word << (32 - bits))
}

// In which order each round takes the words of a block.
function orders (rounds) {
  const all = [Uint8Array.from({ length: BLOCK_WORDS }, (_, index) => index)]
  while (all.length < rounds) all.push(Uint8Array.from(PERMUTATION, (from) => all.at(-1)[from]))
  return all
}
