// Receives a small tree by a ticket: node receive.mjs TICKET TARGET [plain|compressed]
//
// Written from docs/wire-format.md and docs/ticket.md alone. It holds the tree in memory, wants nothing but what the
// sender sends by itself, and keeps times to the millisecond, as Node does. At the end it prints, as JSON, its account
// and how many data streams of each kind came.

import { randomBytes } from 'node:crypto'

import { Violation } from './bytes.mjs'
import { readDataStream } from './content.mjs'
import { Control, PROTOCOL, Refused } from './control.mjs'
import { startPeer } from './peer.mjs'
import { readTicket } from './ticket.mjs'
import { Tree } from './tree.mjs'

const VERSION = 1
const SESSION_BYTES = 16
const DATA_STREAMS = 256
const COMPRESSION = { compressed: 1, plain: 2 }
const SKIPPED_CAUSES = [1, 2]
const VIOLATION = 3

const [line, target, form = 'plain'] = process.argv.slice(2)
const ticket = readTicket(line)
const peer = await startPeer()
try {
  console.log(JSON.stringify(await receive()))
} catch (error) {
  console.error(error instanceof Refused || error instanceof Violation ? error.message : error)
  process.exitCode = 1
} finally {
  await peer.stop()
}

async function receive () {
  const connection = await peer.dial(ticket.addresses)
  const session = { id: randomBytes(SESSION_BYTES), streams: { plain: 0, compressed: 0 }, isOver: false }
  const tree = await Tree.create(target)
  const broken = Promise.withResolvers()
  const take = (stream) => readDataStream(stream, session, tree).catch((error) => {
    stream.abort(error)
    if (!session.isOver) broken.reject(error)
  })
  await peer.handle(PROTOCOL, take, { maxInboundStreams: DATA_STREAMS, runOnLimitedConnection: true })

  const control = await Control.open(connection)
  try {
    return await Promise.race([broken.promise, converse(control, session, tree)])
  } catch (error) {
    if (error instanceof Violation) control.say({ refuse: { reason: VIOLATION, detail: error.message } })
    throw error
  } finally {
    await control.close()
  }
}

async function converse (control, session, tree) {
  const selection = { compression: COMPRESSION[form] }
  control.say({ ask: { version: VERSION, session: session.id, secret: ticket.secret, selection } })
  const [, { version }] = await control.hear('offer')
  if (version !== VERSION) throw new Violation(`version ${version} was offered`)
  const { totals, problems, settling } = await hearManifest(control, tree)
  const stored = await Promise.all(settling)
  if (totals.entries !== stored.length || totals.problems !== problems.length) throw new Violation('other totals')
  await tree.completeDirectories()
  const account = accountOf(stored, problems)
  session.isOver = true // data streams may be reset from here on
  control.say({ done: account })
  await control.hear('farewell')
  return { ...account, streams: session.streams }
}

async function hearManifest (control, tree) {
  const [problems, settling] = [[], []]
  for (;;) {
    const [name, content] = await control.hear('manifest', 'manifestEnd')
    if (name === 'manifestEnd') return { totals: content, problems, settling }
    problems.push(...content.problems)
    settling.push(...tree.announce(content).map((entry) => settle(control, entry)))
  }
}

async function settle (control, { id, path, stored }) {
  const problem = await stored
  control.say({ settled: problem === undefined
    ? { created: [{ first: id, count: 1 }] }
    : { problems: [{ id, path, ...problem }] } })
  return problem
}

function accountOf (stored, listedProblems) {
  const problems = [...listedProblems, ...stored.filter((problem) => problem !== undefined)]
  const skipped = problems.filter(({ cause }) => SKIPPED_CAUSES.includes(cause)).length
  return {
    listed: stored.length + listedProblems.length,
    sent: stored.length + listedProblems.length - problems.length,
    skipped,
    failed: problems.length - skipped,
    problems: problems.length
  }
}
