// Data streams: the content of files in segments, plain or compressed.

import { Decompress } from 'fzstd'

import { blake3 } from '@noble/hashes/blake3.js'
import { chainingValue, CHUNK_BYTES } from './blake3.mjs'
import { ByteReader, Violation } from './bytes.mjs'

const STREAM = { plain: 0x01, compressed: 0x02 }
const SESSION_BYTES = 16
const CONTENT = 0x01
const RAW = 0x00
const CLOSE = { whole: 0x00, givenUp: 0x01 }
const HASH_BYTES = 32
const BLOCK_BYTES = 262144
const RANGE_BYTES = 1048576
const WHOLE_BYTES = 8388608
const CORRUPT = 7

/** Reads a data stream to its end, and gives each span to the entry of `tree` that it belongs to. */
export async function readDataStream (stream, session, tree) {
  const reader = new ByteReader(stream)
  const kind = await reader.byte()
  if (!(await reader.take(SESSION_BYTES)).equals(session.id)) return stream.abort(new Violation('another session'))
  switch (kind) {
    case STREAM.plain:
      session.streams.plain++
      return readSegments(reader, tree)
    case STREAM.compressed:
      session.streams.compressed++
      return readSegments(new ByteReader(decompress(reader)), tree)
    default:
      throw new Violation(`a stream of kind ${kind}`)
  }
}

async function * decompress (reader) {
  const inflated = []
  const zstd = new Decompress((bytes) => inflated.push(Buffer.from(bytes)))
  while (!(await reader.atEnd())) {
    const rawLength = await reader.number()
    const storedLength = await reader.number()
    if (storedLength === 0) {
      yield await reader.take(rawLength)
      continue
    }
    zstd.push(await reader.take(storedLength))
    const raw = Buffer.concat(inflated.splice(0))
    if (raw.length !== rawLength) throw new Violation(`a frame of ${raw.length} bytes that says ${rawLength}`)
    yield raw
  }
}

async function readSegments (reader, tree) {
  while (!(await reader.atEnd())) await readSegment(reader, tree)
}

async function readSegment (reader, tree) {
  const tag = await reader.byte()
  if (tag !== CONTENT) throw new Violation(`a segment of kind ${tag} that nobody asked for`)
  const entry = await tree.announced(await reader.number())
  const offset = await reader.number()
  const length = await reader.number()
  if (length !== spanLength(entry.size, offset)) throw new Violation(`no span: ${length} bytes at ${offset}`)
  const encoding = await reader.byte()
  if (encoding !== RAW) throw new Violation(`a span in encoding ${encoding}`)
  const { bytes, blocksLength } = await readBlocks(reader, length)
  entry.take(await closeSpan(reader, entry, offset, bytes, blocksLength))
}

// How many bytes the span at `offset` of a file of `size` bytes has; nothing where no span begins there.
function spanLength (size, offset) {
  if (size <= WHOLE_BYTES) return offset === 0 ? size : undefined
  return offset % RANGE_BYTES === 0 && offset < size ? Math.min(RANGE_BYTES, size - offset) : undefined
}

async function readBlocks (reader, length) {
  const bytes = Buffer.alloc(length)
  let at = 0
  for (;;) {
    const blockLength = await reader.number()
    if (blockLength === 0) return { bytes, blocksLength: at }
    const hole = blockLength > BLOCK_BYTES
    const covered = hole ? blockLength - BLOCK_BYTES : blockLength
    if (at + covered > length) throw new Violation(`a block of ${covered} bytes where ${length - at} are left`)
    if (!hole) (await reader.take(blockLength)).copy(bytes, at)
    at += covered
  }
}

async function closeSpan (reader, entry, offset, bytes, blocksLength) {
  const close = await reader.byte()
  switch (close) {
    case CLOSE.whole: {
      if (blocksLength !== bytes.length) throw new Violation(`a span of ${blocksLength} of ${bytes.length} bytes`)
      const hash = await reader.take(HASH_BYTES)
      const intact = hash.equals(spanHash(entry.size, offset, bytes))
      return intact ? { offset, bytes } : { problem: { cause: CORRUPT, detail: 'its hash is another' } }
    }
    case CLOSE.givenUp: {
      const cause = await reader.number()
      const detail = (await reader.take(await reader.number())).toString()
      return { problem: { cause, detail } }
    }
    default:
      throw new Violation(`a span closed by ${close}`)
  }
}

function spanHash (size, offset, bytes) {
  return size <= WHOLE_BYTES ? blake3(bytes) : chainingValue(bytes, offset / CHUNK_BYTES)
}
