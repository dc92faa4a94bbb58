// Bytes that come in pieces of any length, read in the lengths that are asked for.

/** The other side broke the protocol. */
export class Violation extends Error {}

const NUMBER_BYTES = 10

export class ByteReader {
  #pieces
  #held = Buffer.alloc(0)

  /** Reads the pieces of an async iterable: a stream of libp2p, or what a generator makes of one. */
  constructor (pieces) {
    this.#pieces = pieces[Symbol.asyncIterator]()
  }

  /** Whether nothing follows. Waits until that is known. */
  async atEnd () {
    while (this.#held.length === 0) {
      const { value, done } = await this.#pieces.next()
      if (done) return true
      this.#held = Buffer.from(value.subarray())
    }
    return false
  }

  async take (length) {
    const taken = Buffer.alloc(length)
    for (let at = 0; at < length;) {
      if (await this.atEnd()) throw new Violation(`the stream ended, ${length - at} bytes early`)
      const copied = this.#held.copy(taken, at)
      this.#held = this.#held.subarray(copied)
      at += copied
    }
    return taken
  }

  async byte () {
    return (await this.take(1))[0]
  }

  /** Unsigned LEB128, as segments have it. */
  async number () {
    let number = 0n
    for (let at = 0n; at < NUMBER_BYTES; at++) {
      const byte = await this.byte()
      number |= BigInt(byte & 0x7f) << (7n * at)
      if (byte < 0x80) return Number(number)
    }
    throw new Violation(`a number has more than ${NUMBER_BYTES} bytes`)
  }
}
