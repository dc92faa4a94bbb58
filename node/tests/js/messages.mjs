// The messages of docs/wire-format.md that a receiver of a new tree says and hears, as protocol buffers.

import { Violation } from './bytes.mjs'

const Run = { first: [1, 'uint'], count: [2, 'uint'] }
const Selection = { compression: [5, 'uint'] }
const Problem = { id: [1, 'uint'], path: [2, 'bytes'], cause: [3, 'uint'], detail: [4, 'string'] }
const Entry = {
  shared: [1, 'uint'],
  rest: [2, 'bytes'],
  kind: [3, 'uint'],
  size: [4, 'uint'],
  mode: [5, 'uint'],
  seconds: [6, 'sint'],
  nanoseconds: [7, 'uint'],
  linkTarget: [8, 'bytes']
}

const Envelope = {
  ask: [1, { version: [1, 'uint'], session: [2, 'bytes'], secret: [3, 'bytes'], selection: [8, Selection] }],
  offer: [2, { version: [1, 'uint'] }],
  refuse: [3, { reason: [1, 'uint'], path: [2, 'bytes'], detail: [3, 'string'] }],
  manifest: [5, { first: [1, 'uint'], entries: [2, [Entry]], problems: [3, [Problem]] }],
  manifestEnd: [6, { entries: [1, 'uint'], bytes: [2, 'uint'], problems: [3, 'uint'] }],
  settled: [8, { created: [1, [Run]], problems: [6, [Problem]] }],
  done: [9, { listed: [1, 'uint'], sent: [2, 'uint'], skipped: [4, 'uint'], failed: [5, 'uint'], problems: [7, 'uint'] }],
  farewell: [10, {}],
  keepAlive: [11, {}]
}

const VARINT = 0
const FIXED64 = 1
const COUNTED = 2
const FIXED32 = 5

/** `{ ask: { version: 1, ... } }` as the bytes of an envelope. */
export function encodeEnvelope (envelope) {
  return encode(Envelope, envelope)
}

/** The bytes of an envelope as the name and the content of its one message. */
export function decodeEnvelope (bytes) {
  const messages = Object.entries(decode(Envelope, bytes)).filter(([, content]) => content !== undefined)
  if (messages.length !== 1) throw new Violation(`an envelope has ${messages.length} messages known here`)
  return messages[0]
}

function encode (schema, message) {
  return Buffer.concat(Object.entries(message).flatMap(([name, value]) => {
    const [number, type] = schema[name]
    return [value].flat().map((item) => encodeField(number, Array.isArray(type) ? type[0] : type, item))
  }))
}

function encodeField (number, type, value) {
  switch (type) {
    case 'uint': return value === 0 ? Buffer.alloc(0) : Buffer.concat([encodeTag(number, VARINT), encodeVarint(value)])
    case 'bytes': return encodeCounted(number, value)
    case 'string': return encodeCounted(number, Buffer.from(value))
    default: return encodeCounted(number, encode(type, value))
  }
}

function encodeCounted (number, bytes) {
  return Buffer.concat([encodeTag(number, COUNTED), encodeVarint(bytes.length), bytes])
}

function encodeTag (number, form) {
  return encodeVarint(number * 8 + form)
}

function encodeVarint (value) {
  const bytes = []
  let left = BigInt(value)
  for (; left >= 0x80n; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80)
  return Buffer.from([...bytes, Number(left)])
}

// Fields that are left out are zero, empty or nothing; those that are unknown here are ignored.
function decode (schema, bytes) {
  const fields = new Map(Object.entries(schema).map(([name, [number, type]]) => [number, { name, type }]))
  const message = Object.fromEntries(Object.entries(schema).map(([name, [, type]]) => [name, absent(type)]))
  for (const { number, value } of splitFields(bytes)) {
    const field = fields.get(number)
    if (field === undefined) continue
    if (Array.isArray(field.type)) message[field.name].push(decodeValue(field.type[0], value))
    else message[field.name] = decodeValue(field.type, value)
  }
  return message
}

function absent (type) {
  if (Array.isArray(type)) return []
  switch (type) {
    case 'uint': case 'sint': return 0
    case 'bytes': return Buffer.alloc(0)
    case 'string': return ''
    default: return undefined
  }
}

function decodeValue (type, value) {
  switch (type) {
    case 'uint': return Number(value)
    case 'sint': return Number((value >> 1n) ^ -(value & 1n))
    case 'bytes': return value
    case 'string': return value.toString()
    default: return decode(type, value)
  }
}

function * splitFields (bytes) {
  let at = 0
  const take = (length) => {
    if (at + length > bytes.length) throw new Violation('a message ends within a field')
    at += length
    return bytes.subarray(at - length, at)
  }
  const varint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const [byte] = take(1)
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const value = (form) => {
    switch (form) {
      case VARINT: return varint()
      case FIXED64: return take(8)
      case COUNTED: return take(Number(varint()))
      case FIXED32: return take(4)
      default: throw new Violation(`a field has the unknown form ${form}`)
    }
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    yield { number: Math.floor(tag / 8), value: value(tag % 8) }
  }
}
