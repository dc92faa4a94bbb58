// The tree that a receiver writes: what was announced, and what has become of it.

import { chmod, lutimes, mkdir, symlink, utimes, writeFile } from 'node:fs/promises'

import { Violation } from './bytes.mjs'

const KIND = { file: 0, directory: 1, symlink: 2 }
const CAUSE = { unwritable: 6 }
const PATH_BYTES = 4096
const COMPONENT_BYTES = 255

export class Tree {
  #target
  #entries = []
  #waiting = new Map()
  #byPath = new Map()

  /** Makes the directory `target`, which must not be there, for a tree. */
  static async create (target) {
    await mkdir(target)
    return new Tree(target)
  }

  constructor (target) {
    this.#target = target
  }

  /** Takes a batch of the manifest: the new entries, each of which becomes stored. */
  announce ({ first, entries }) {
    if (first !== this.#entries.length) throw new Violation(`entry ${first} follows ${this.#entries.length}`)
    let before = Buffer.alloc(0)
    return entries.map((listed) => {
      const path = Buffer.concat([before.subarray(0, listed.shared), listed.rest])
      before = path
      return this.#add(new Entry(this.#entries.length, path, listed))
    })
  }

  /** The file with this id, once it was announced: content may overtake the manifest. */
  async announced (id) {
    if (!this.#waiting.has(id)) this.#waiting.set(id, Promise.withResolvers())
    const entry = this.#entries[id] ?? await this.#waiting.get(id).promise
    if (entry.kind !== KIND.file) throw new Violation(`content of entry ${id}, which is no file`)
    return entry
  }

  /** Gives directories their modes and times, which was too early as long as names came in. */
  async completeDirectories () {
    for (const entry of this.#entries.filter(({ kind }) => kind === KIND.directory).reverse()) {
      await chmod(this.#place(entry.path), entry.mode)
      await utimes(this.#place(entry.path), entry.time, entry.time)
    }
  }

  #add (entry) {
    const above = this.#directoryOf(entry)
    entry.stored = this.#store(entry, above).then(
      (problem) => problem,
      (error) => ({ cause: CAUSE.unwritable, detail: error.message }))
    this.#entries.push(entry)
    this.#byPath.set(entry.path.toString('latin1'), entry)
    this.#waiting.get(entry.id)?.resolve(entry)
    return entry
  }

  // The directory of this tree that the entry is in, so that nothing outside of the tree can be reached; nothing for
  // the root.
  #directoryOf ({ path, kind }) {
    const text = path.toString('latin1')
    const legal = (component) => !['', '.', '..'].includes(component) && component.length <= COMPONENT_BYTES
    if (path.length > PATH_BYTES || text.includes('\0') || !text.split('/').every(legal)) {
      throw new Violation('an illegal path')
    }
    if (this.#byPath.has(text)) throw new Violation('an entry is listed twice')
    if (!Object.values(KIND).includes(kind)) throw new Violation(`an entry of kind ${kind}`)
    const slash = text.lastIndexOf('/')
    if (slash < 0) return undefined
    const above = this.#byPath.get(text.slice(0, slash))
    if (above?.kind !== KIND.directory) throw new Violation('an entry below no directory')
    return above
  }

  // What is in the way of an entry's being stored as listed, or nothing.
  async #store (entry, above) {
    await above?.stored
    const place = this.#place(entry.path)
    switch (entry.kind) {
      case KIND.file: return storeFile(place, entry)
      case KIND.directory: return void await mkdir(place, 0o700)
      case KIND.symlink: return storeSymlink(place, entry)
    }
  }

  #place (path) {
    return Buffer.concat([Buffer.from(`${this.#target}/`), path])
  }
}

class Entry {
  #bytes
  #missing
  #content = Promise.withResolvers()
  #offsets = new Set()

  constructor (id, path, { kind, size, mode, seconds, nanoseconds, linkTarget }) {
    Object.assign(this, { id, path, kind, size, mode, linkTarget, time: new Date(seconds * 1000 + nanoseconds / 1e6) })
    if (kind === KIND.file) {
      this.#bytes = Buffer.alloc(size)
      this.#missing = size
      if (size === 0) this.#content.resolve({ bytes: this.#bytes })
    }
  }

  /** The content once it is whole, or the problem for which it will not be. */
  get content () {
    return this.#content.promise
  }

  /** Takes a span that was verified, or the problem that came in its place. */
  take ({ offset, bytes, problem }) {
    if (problem !== undefined) return this.#content.resolve({ problem })
    if (this.#offsets.has(offset)) return
    this.#offsets.add(offset)
    bytes.copy(this.#bytes, offset)
    this.#missing -= bytes.length
    if (this.#missing === 0) this.#content.resolve({ bytes: this.#bytes })
  }
}

async function storeFile (place, entry) {
  const { bytes, problem } = await entry.content
  if (problem !== undefined) return problem
  await writeFile(place, bytes, { flag: 'wx' })
  await chmod(place, entry.mode)
  await utimes(place, entry.time, entry.time)
}

async function storeSymlink (place, entry) {
  await symlink(entry.linkTarget, place)
  await lutimes(place, entry.time, entry.time)
}
