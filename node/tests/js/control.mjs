// The control stream of a session: frames, both ways.

import { ByteReader, Violation } from './bytes.mjs'
import { decodeEnvelope, encodeEnvelope } from './messages.mjs'

export const PROTOCOL = '/ketch/transfer/1'

const CONTROL_STREAM = 0x00
const MESSAGE_BYTES = 131072
const KEEP_ALIVE_S = 5
const REASONS = [
  , 'NotAdmitted', 'Version', 'Violation', 'Declined', 'Interrupted', 'NoSpace', 'ReadOnly', 'Timeout', 'Internal',
  'RemovalLimit', 'EmptySource', 'Busy', 'OtherSource', 'Unavailable'
]

/** The other side has ended the session, and why. */
export class Refused extends Error {
  constructor ({ reason, detail }) {
    super(`refused: ${REASONS[reason]}: ${detail}`)
  }
}

export class Control {
  #stream
  #reader
  #keepingAlive

  static async open (connection) {
    return new Control(await connection.newStream(PROTOCOL, { runOnLimitedConnection: true }))
  }

  constructor (stream) {
    this.#stream = stream
    this.#reader = new ByteReader(stream)
    stream.send(Buffer.of(CONTROL_STREAM))
    this.#keepingAlive = setInterval(() => this.say({ keepAlive: {} }), KEEP_ALIVE_S * 1000)
  }

  say (envelope) {
    const message = encodeEnvelope(envelope)
    const frame = Buffer.alloc(4 + message.length)
    frame.writeUInt32BE(message.length)
    message.copy(frame, 4)
    this.#stream.send(frame)
  }

  /** The name and the content of the next message, which must be one of `names`. */
  async hear (...names) {
    for (;;) {
      const [name, content] = await this.#next()
      if (names.includes(name)) return [name, content]
      if (name === 'refuse') throw new Refused(content)
      if (name !== 'keepAlive') throw new Violation(`${name} came instead of ${names.join(' or ')}`)
    }
  }

  async close () {
    clearInterval(this.#keepingAlive)
    await this.#stream.close()
  }

  async #next () {
    const length = (await this.#reader.take(4)).readUInt32BE()
    if (length > MESSAGE_BYTES) throw new Violation(`a message of ${length} bytes`)
    return decodeEnvelope(await this.#reader.take(length))
  }
}
