// Chaining values of subtrees of BLAKE3 (its paper, section 2), which libraries keep to themselves.

export const CHUNK_BYTES = 1024

const BLOCK_BYTES = 64
const ROUNDS = 7
const IV = Uint32Array.of(
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19)
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
const FLAG = { chunkStart: 1, chunkEnd: 2, parent: 4 }
// The words of the state that each step of a round mixes: its columns, then its diagonals.
const STEPS = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]]

/** The chaining value (32 bytes) of the subtree over `bytes`, whose first chunk is number `firstChunk`. */
export function chainingValue (bytes, firstChunk) {
  const words = subtree(bytes, firstChunk)
  const value = Buffer.alloc(4 * words.length)
  words.forEach((word, index) => value.writeUInt32LE(word, 4 * index))
  return value
}

function subtree (bytes, firstChunk) {
  const chunks = Math.ceil(bytes.length / CHUNK_BYTES)
  if (chunks <= 1) return chunk(bytes, firstChunk)
  const leftChunks = 2 ** Math.floor(Math.log2(chunks - 1))
  const left = subtree(bytes.subarray(0, leftChunks * CHUNK_BYTES), firstChunk)
  const right = subtree(bytes.subarray(leftChunks * CHUNK_BYTES), firstChunk + leftChunks)
  return compress(IV, Uint32Array.of(...left, ...right), 0, BLOCK_BYTES, FLAG.parent)
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
  const padded = Buffer.alloc(BLOCK_BYTES)
  block.copy(padded)
  return Uint32Array.from({ length: 16 }, (_, index) => padded.readUInt32LE(4 * index))
}

function compress (value, message, counter, length, flags) {
  const state = Uint32Array.of(
    ...value, ...IV.subarray(0, 4), counter % 2 ** 32, Math.floor(counter / 2 ** 32), length, flags)
  let words = message
  for (let round = 0; round < ROUNDS; round++) {
    STEPS.forEach((step, index) => mix(state, step, words[2 * index], words[2 * index + 1]))
    words = PERMUTATION.map((from) => words[from])
  }
  return Uint32Array.from({ length: 8 }, (_, index) => state[index] ^ state[index + 8])
}

function mix (state, [a, b, c, d], x, y) {
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
