// SPDX-License-Identifier: LGPL-2.1-or-later
'use strict'

// Run by tests/unit/test_node.sh, with --expose-gc, and the package in node_modules.

const assert = require('node:assert')
const { spawn } = require('node:child_process')
const diagnostics = require('node:diagnostics_channel')
const { once } = require('node:events')
const fs = require('node:fs')
const path = require('node:path')
const { after, before, test } = require('node:test')
const { setTimeout: sleep } = require('node:timers/promises')
const { Worker } = require('node:worker_threads')
const userev = require('userev')
const { Daemon, fake, until } = require('./daemon.js')

const PACKAGE = path.dirname(require.resolve('userev'))
const record = require(path.join(PACKAGE, 'record.js'))
const { native } = require(path.join(PACKAGE, 'link.js'))

const fds = () => fs.readdirSync('/proc/self/fd').length
// The memory of connections, by its size.
const regions = () => fs.readFileSync('/proc/self/maps', 'utf8').split('\n').filter(line => {
  const [from, to] = line.split(/[- ]/)
  return Number(`0x${to}`) - Number(`0x${from}`) === native.pageAt
}).length

async function settled (count) {
  for (let i = 0; i < 5; i++) {
    global.gc()
    await sleep(10)
  }
  return count()
}

// --- without a daemon ---

test('without a daemon events are off, and nothing fails', () => {
  const conn = userev.open({ socket: '/nonexistent/socket' })
  const event = conn.register('e u32 x')
  const typed = conn.declare('t', { x: 'u32' })
  assert.match(conn.problem, /^\/nonexistent\/socket: No such file/)
  for (const one of [event, typed]) {
    assert.deepStrictEqual([one.on, one.emit({ x: 1 }), one.emit(() => assert.fail()), one.write(Buffer.alloc(4)), one.refusal],
      [false, false, false, false, undefined])
  }
  event.release()
  event.release()
  conn.close()
  conn.close()
  typed.release()
  assert.deepStrictEqual([event.on, typed.on, typed.emit({}), typed.name], [false, false, false, 't'])
  assert.strictEqual(conn.problem, 'the connection is closed')
  assert.deepStrictEqual(conn.lost, { queueFull: 0, tooBig: 0, wrong: 0 })
  assert.throws(() => conn.register('e u32 x'), /closed/)
})

test('registerAsync without a daemon does not wait', async () => {
  const conn = userev.open({ socket: '/nonexistent/socket' })
  const began = Date.now()
  assert.strictEqual((await conn.registerAsync('e u32 x')).on, false)
  assert(Date.now() - began < 1000)
  conn.close()
})

test('without an addon for the system events are off', async () => {
  const other = fs.mkdtempSync(path.join(__dirname, 'other-'))
  fs.cpSync(PACKAGE, other, { recursive: true, filter: file => !file.endsWith('prebuilds') })
  const isOff = async why => {
    const conn = require(other).open()
    const events = [conn.declare('t', { x: 'u32' }), conn.register('e u32 x'), await conn.registerAsync('e u32 x')]
    for (const event of events) assert.deepStrictEqual([event.on, event.emit({ x: 1 }), event.refusal], [false, false, undefined])
    assert.match(conn.problem, why)
    events[0].release()
    conn.close()
  }
  await isOff(/there is no usable addon for linux on .*: Cannot find module/)

  // One that works nowhere, as in Electron.
  const addon = path.join(other, `prebuilds/linux-${process.arch}/userev.node`)
  fs.cpSync(path.join(PACKAGE, 'prebuilds'), path.join(other, 'prebuilds'), { recursive: true })
  require.cache[addon] = { loaded: true, exports: { ...native, open () { throw new Error('External buffers are not allowed') } } }
  for (const file of ['index.js', 'link.js']) delete require.cache[path.join(other, file)]
  await isOff(/there is no usable addon for linux on .*: External buffers are not allowed$/)
})

test('fields of a typed event', () => {
  const { description, fields } = record.describe('shop_request',
    { status: 'u32', ns: 'u64', load: 'f64', half: 'f32', hit: 'bool', verb: 'char[4]', path: 'string', body: 'bytes' })
  assert.strictEqual(description, 'shop_request u32 status; u64 ns; u64 load_f64; u32 half_f32; u8 hit; char[4] verb; ' +
    '__rel_loc char[] path; __rel_loc u8[] body')
  const bytes = Buffer.alloc(8192, 0xee)
  const link = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset), layouts: 0 }
  const size = fields.encode(link,
    { status: 404.9, ns: 2n ** 64n - 1n, load: 1.5, half: 0.5, hit: true, verb: 'GET', path: 'ä', body: Uint8Array.of(9, 8) })
  const wanted = Buffer.alloc(42)
  const view = new DataView(wanted.buffer, wanted.byteOffset)
  const little = require('node:os').endianness() === 'LE'
  view.setUint32(0, 404, little)
  view.setBigUint64(4, 2n ** 64n - 1n, little)
  view.setFloat64(12, 1.5, little)
  view.setFloat32(20, 0.5, little)
  wanted[24] = 1
  wanted.write('GET\0', 25)
  view.setUint32(29, 3 << 16 | 4, little)
  view.setUint32(33, 2 << 16 | 3, little)
  wanted.set([0xc3, 0xa4, 0, 9, 8], 37)
  assert.deepStrictEqual(bytes.subarray(0, size), wanted)
  assert.strictEqual(fields.encode(link, {}), 38)
  assert.throws(() => record.parse('e __rel_loc u32[] x').fields.encode(link, { x: new DataView(new ArrayBuffer(4)) }), /x is no array/)
  for (const [fields, sentence] of [[{ x: 'int' }, /the field x: 'int' is no type: use s8, /], [{ 'x-y': 'u32' }, /name of a field/]]) {
    assert.throws(() => record.describe('e', fields), sentence)
  }
  assert.throws(() => record.describe('e e', {}), /name of an event/)
})

test('a test that is off allocates nothing, and costs what a property and a load from a typed array cost', () => {
  const conn = userev.open({ socket: '/nonexistent/socket' })
  const event = conn.register('e u32 x')
  const plain = { at: 5, bytes: new Uint8Array(8192) }
  const rounds = 1e6
  const loops = {
    on () { let n = 0; for (let i = 0; i < rounds; i++) if (event.on) n++; return n },
    emit () { let n = 0; for (let i = 0; i < rounds; i++) if (event.emit(plain)) n++; return n },
    plain () { let n = 0; for (let i = 0; i < rounds; i++) if (plain.bytes[plain.at] & 1) n++; return n },
    empty () { let n = 0; for (let i = 0; i < rounds; i++) n += i & 1; return n }
  }
  const best = { on: Infinity, emit: Infinity, plain: Infinity, empty: Infinity }
  for (let i = 0; i < 10; i++) {
    for (const [name, loop] of Object.entries(loops)) {
      const began = process.hrtime.bigint()
      loop()
      best[name] = Math.min(best[name], Number(process.hrtime.bigint() - began))
    }
  }
  global.gc()
  const before = process.memoryUsage().heapUsed
  loops.on()
  loops.emit()
  const grown = process.memoryUsage().heapUsed - before
  assert(grown < rounds / 10, `${grown} bytes`)
  const ns = name => (best[name] / rounds).toFixed(2)
  console.log(`# off, ns: on ${ns('on')}, emit ${ns('emit')}, property and load ${ns('plain')}, empty loop ${ns('empty')}; ` +
    `on / property and load: ${(best.on / best.plain).toFixed(2)}`)
  conn.close()
})

test('connections that are closed or collected leave nothing', async () => {
  const some = isClosed => {
    for (let i = 0; i < 20; i++) {
      const conn = userev.open({ socket: '/nonexistent/socket' })
      conn.register('e u32 x')
      if (isClosed) conn.close()
    }
  }
  const before = await settled(regions)
  for (let i = 0; i < 6; i++) {
    some(i % 2 === 0)
    assert(regions() >= before + 20)
    await until(async () => await settled(regions) <= before)
  }
})

test('the functions of the addon refuse junk', () => {
  const detached = new ArrayBuffer(8)
  structuredClone(detached, { transfer: [detached] })
  const junk = [undefined, null, -1, 0, 1.5, NaN, Infinity, 2 ** 32, 2 ** 53, 10n, '', 'x\0y', 'x'.repeat(1e6), '\ud800', Symbol('s'), [],
    {}, () => {}, { get length () { throw new Error('getter') }, valueOf () { throw new Error('valueOf') } }, detached,
    new SharedArrayBuffer(8), new ArrayBuffer(8, { maxByteLength: 64 }), new Proxy({}, { get () { throw new Error('trap') } }),
    new Uint8Array(1e6), new DataView(new ArrayBuffer(1))]
  const [number] = native.open('/nonexistent/socket')
  let seed = 1
  const random = n => (seed = seed * 48271 % 0x7fffffff) % n
  const argument = i => random(3) === 0 ? [number, random(4), random(9), 0, 0][i] ?? 'e u32 x' : junk[random(junk.length)]
  for (const name of Object.keys(native).filter(name => typeof native[name] === 'function' && name !== 'close')) {
    for (let i = 0; i < 2000; i++) {
      try {
        const result = native[name](...Array.from({ length: random(7) }, (_, i) => argument(i)))
        if (name === 'open' && result) native.close(result[0])
      } catch (error) {
        assert(error instanceof TypeError || /too many|too long/.test(error.message), `${name}: ${error}`)
      }
    }
  }
  native.close(number)
  assert.throws(() => native.look(number), /no such connection/)
})

test('a daemon that hangs delays one registration, and no asynchronous one', async t => {
  const daemon = new Daemon()
  const hangs = await fake(daemon.socket, 'hangs')
  t.after(() => { hangs.kill(); return daemon.end() })
  const conn = userev.open({ socket: daemon.socket })
  const began = performance.now()
  conn.register('a u32 x')
  const first = performance.now() - began
  for (let i = 0; i < 100; i++) conn.register(`b${i} u32 x`)
  const all = performance.now() - began
  assert(first >= 190 && all < first + 1000, `${first} ms, ${all} ms`)
  assert.strictEqual(conn.problem, 'the daemon has not answered yet')
  let turns = 0
  const ticks = setInterval(() => turns++, 5)
  assert.strictEqual((await conn.registerAsync('c u32 x')).on, false)
  clearInterval(ticks)
  assert(turns > 20, `${turns}`)
  conn.close()

  // So it is whatever this says. It is the minimum of waits that there are.
  process.env.USEREV_WAIT = '60000'
  const other = userev.open({ socket: daemon.socket })
  process.env.USEREV_WAIT = '500'
  const patient = userev.open({ socket: daemon.socket })
  delete process.env.USEREV_WAIT
  const start = performance.now()
  const promise = other.registerAsync('a u32 x')
  other.register('b u32 x', { wait: 0 })
  other.declare('c', { x: 'u32' }, { wait: 0 })
  const short = performance.now() - start
  patient.register('a u32 x', { wait: 1 })
  const long = performance.now() - start
  assert(short < 20000 && long >= 490, `${short} ms, ${long} ms`)
  assert.strictEqual((await promise).on, false)
  other.close()
  patient.close()
})

test('a page that stays abandoned does not slow tests down', async t => {
  const daemon = new Daemon()
  const program = await fake(daemon.socket, 'abandoned')
  t.after(() => { program.kill(); return daemon.end() })
  const conn = userev.open({ socket: daemon.socket })
  const event = conn.register('a u32 x')
  await until(() => !event.on)
  const began = performance.now()
  for (let i = 0; i < 1e6; i++) assert(!event.on)
  assert(performance.now() - began < 2000)
  conn.close()
})

// --- with a daemon ---

const daemon = new Daemon()
before(() => daemon.start())
after(() => daemon.end())

test('records come through, with all types', async () => {
  const tail = daemon.tail('n_*')
  const conn = userev.open({ socket: daemon.socket })
  const typed = conn.declare('n_typed', { a: 's64', b: 'f32', c: 'bool', d: 'char[4]', e: 'string', f: 'bytes' })
  const raw = conn.register('n_raw u32 a')
  const arrays = conn.register('n_arrays u32 a; __rel_loc u64[] b')
  assert.strictEqual(conn.problem, undefined)
  assert.strictEqual(typed.name, 'n_typed')
  await until(() => typed.on && raw.on && arrays.on)
  assert(typed.emit({ a: -5n, b: 0.5, c: true, d: 'ab', e: 'text', f: Buffer.from([1, 2]) }))
  assert(typed.emit(() => ({ a: 2 ** 53, e: undefined })))
  assert(raw.write(new Uint8Array(Uint32Array.of(7).buffer)))
  assert(raw.emit({ a: 8 }))
  await until(() => tail.records.length === 4)
  assert.deepStrictEqual(tail.records.map(({ fields }) => fields), [
    { a: -5, b_f32: 0.5, c: 1, d: 'ab', e: 'text', f: [1, 2] }, { a: 2 ** 53, b_f32: 0, c: 0, d: '', e: '', f: [] }, { a: 7 }, { a: 8 }])

  // Wrong values.
  const warnings = []
  process.on('warning', warning => warnings.push(warning.message))
  const throwing = { get a () { throw new Error('a getter') } }
  const wrong = [{ a: 'x' }, { a: 1, z: 2 }, { a: 2n ** 63n }, { a: NaN }, { d: 'abcde' }, { e: 5 }, { f: 'x'.repeat(9), b: '1' },
    null, 5, throwing, () => { throw Symbol('s') }, new Proxy({}, { ownKeys () { throw new Error('trap') } })]
  for (const values of wrong) assert.strictEqual(typed.emit(values), false)
  for (const payload of [undefined, 'text', new ArrayBuffer(4), {}]) assert.strictEqual(raw.write(payload), false)
  assert.strictEqual(typed.emit({ e: 'x'.repeat(5000) }), false)
  assert.strictEqual(raw.write(new Uint8Array(1e6)), false)
  assert.strictEqual(arrays.emit({ b: Array(2 ** 29) }), false) // 2^32 bytes
  assert.deepStrictEqual(conn.lost, { queueFull: 0, tooBig: 3, wrong: wrong.length + 4 })
  await until(() => warnings.length === 2)
  assert.strictEqual(warnings[0],
    'n_typed: the field a is no number from -9223372036854775808 to 9223372036854775807. The record is not written.')

  // Other records are emitted while values are read, or too late.
  const late = [1, 2]
  Object.defineProperty(late, 1, { get: () => raw.emit({ a: 10 }) })
  class Odd extends Uint8Array { get byteLength () { return raw.write(new Uint32Array([11])) ? 9 : 0 } }
  assert(arrays.emit({ get a () { return raw.emit({ a: 9 }) }, b: [3] }))
  assert.strictEqual(arrays.emit({ a: 1, b: late }), false)
  assert.strictEqual(typed.emit({ a: 1, f: new Odd(9) }), false)
  await until(() => tail.records.length === 8)
  assert.deepStrictEqual(tail.records.slice(4).map(({ fields }) => fields), [{ a: 9 }, { a: 1, b: [3] }, { a: 10 }, { a: 11 }])
  assert.strictEqual(conn.lost.wrong, wrong.length + 6)

  // Released and closed while values are made.
  assert.strictEqual(raw.emit(() => { raw.release(); return { a: 1 } }), false)
  assert.strictEqual(typed.emit(() => { conn.close(); return { a: 1 } }), false)
  assert.deepStrictEqual([raw.on, typed.on, typed.emit({}), conn.lost.wrong], [false, false, false, wrong.length + 6])
  tail.end()
})

test('refusals are the daemon’s', async () => {
  await settled(fds)
  const files = fds()
  const conn = userev.open({ socket: daemon.socket })
  const released = conn.register('released u32 x')
  assert(fds() > files)
  released.release()
  released.release()
  for (let i = 0; i < 3; i++) assert.strictEqual(conn.register(`next_${i}`).name, `next_${i}`)
  assert.throws(() => conn.register('bad long x'), error => error instanceof userev.Refusal && error.reason === 'bad-description' &&
    error.message.includes("'long' has no fixed size"))
  await assert.rejects(conn.registerAsync('bad long x'), { name: 'Refusal', reason: 'bad-description' })
  assert.throws(() => conn.register('x'.repeat(600)), { reason: 'bad-description', message: /511 bytes/ })
  assert.throws(() => conn.register('x'.repeat(510) + '€'), { reason: 'bad-description', message: /511 bytes/ })
  const twice = conn.declare('twice', { x_f32: 'f32', x: 'f32' })
  assert.match(twice.refusal.message, /x_f32/)
  assert.deepStrictEqual([twice.on, twice.emit({})], [false, false])
  assert.throws(() => conn.register(5), TypeError)
  conn.close()
  assert.strictEqual(fds(), files)
})

test('events go on after the daemon was killed, and after it was stopped', async () => {
  const conn = userev.open({ socket: daemon.socket })
  const off = conn.register('again_off u32 x')
  const event = conn.register('again u32 x')
  for (const [signal, x] of [['SIGKILL', 1], ['SIGTERM', 2]]) {
    await daemon.kill(signal)
    await daemon.start()
    const tail = daemon.tail('again')
    await until(() => {
      event.emit({ x })
      return tail.records.some(({ fields }) => fields.x === x)
    })
    assert.strictEqual(off.on, false)
    tail.end()
  }
  conn.close()
})

test('a channel becomes records', async () => {
  const tail = daemon.tail('chan')
  const conn = userev.open({ socket: daemon.socket })
  const map = ({ request }) => ({ url: request.url })
  const bridge = userev.channel(conn, 'test.channel', { name: 'chan', fields: { url: 'string' }, map })
  await until(() => bridge.event.on)
  diagnostics.channel('test.channel').publish({ request: { url: '/a' } })
  diagnostics.channel('test.channel').publish({}) // map throws, and nothing happens
  await until(() => tail.records.length === 1)
  assert.deepStrictEqual(tail.records[0].fields, { url: '/a' })
  assert.strictEqual(conn.lost.wrong, 1)
  bridge.close()
  assert(!diagnostics.channel('test.channel').hasSubscribers)
  conn.close()
  tail.end()
})

test('eight workers emit, and are terminated', async () => {
  const tail = daemon.tail('work')
  const run = async count => {
    const workers = Array.from({ length: count }, () => new Worker(path.join(__dirname, 'worker.js'), { workerData: daemon.socket }))
    await Promise.all(workers.map(worker => once(worker, 'message')))
    await Promise.all(workers.map(worker => worker.terminate()))
  }
  await run(2)
  const files = fds()
  const before = await settled(regions)
  for (let i = 0; i < 3; i++) await run(8)
  await until(async () => await settled(regions) <= before)
  await until(() => fds() <= files)
  assert(tail.records.length > 0)
  tail.end()
})

test('the example of an HTTP server, and import', async () => {
  const tail = daemon.tail('http_*')
  const environment = { ...process.env, USEREV_SOCKET: daemon.socket, PORT: '0' }
  const server = spawn(process.execPath, [path.join(PACKAGE, 'examples/http.js')],
    { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(server.stdout, 'data')
  await until(async () => {
    await fetch(`http://127.0.0.1:${/\d+/.exec(line)}/here`).then(response => response.text())
    return tail.records.length > 0
  })
  assert.strictEqual(tail.records[0].fields.url, '/here')
  server.kill()
  assert.strictEqual(userev.default, userev)
  const imported = await import('userev')
  assert.strictEqual(imported.open, userev.open)
  assert.strictEqual(imported.default, userev)
  tail.end()
})

// The last, since its events linger for a while.
test('thousands of events, and one too many', async () => {
  const tail = daemon.tail('many_4999')
  const conn = userev.open({ socket: daemon.socket })
  const events = Array.from({ length: 5000 }, (_, i) => conn.register(`many_${i} u32 x`))
  await until(() => events[4999].on)
  assert(!events[4998].on && !events[0].on)
  assert(events[4999].emit({ x: 1 }))
  await until(() => tail.records.length === 1)
  assert.throws(() => { for (let i = 0; i < 2000; i++) conn.register(`more_${i} u32 x`) }, { reason: 'quota-exceeded' })
  conn.close()
  tail.end()
})
