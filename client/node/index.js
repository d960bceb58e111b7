// SPDX-License-Identifier: LGPL-2.1-or-later
'use strict'

const diagnostics = require('node:diagnostics_channel')
const { EINVAL } = require('node:os').constants.errno
const { setTimeout: sleep } = require('node:timers/promises')
const { BIT, Link, native } = require('./link.js')
const { Wrong, describe, parse } = require('./record.js')

const WAIT_MS = 200
const WAIT_ASYNC_MS = 2000

/** Why the daemon refuses an event: `message` is its sentence, `reason` its name as in userevd-protocol(7): 'quota-exceeded'. */
class Refusal extends Error {
  constructor ([reason, sentence]) {
    super(sentence)
    this.name = 'Refusal'
    this.reason = reason
  }
}

function sentenceOf (error) {
  try {
    return String(error?.message ?? error)
  } catch {
    return 'an exception'
  }
}

/** An event that is registered, or will be when there is a daemon. Made by a Connection. */
class TraceEvent {
  #link
  #bits
  #page
  #at
  #slot
  #refusal
  #name
  #fields
  #warned = false

  /** @internal */
  constructor (link, { name, fields }, slot, refusal) {
    this.#link = link
    this.#bits = link.bits
    this.#page = link.page
    this.#name = name
    this.#fields = fields
    this.#refusal = refusal && new Refusal(refusal)
    this.#place(slot)
  }

  #place (slot) {
    this.#slot = slot
    this.#at = slot * Link.STEP
  }

  /** Whether a tracer has the event on. Two loads and a test while it is off. */
  get on () {
    const bit = this.#bits[this.#at] & BIT
    return (this.#page[bit >> 3] & 1 << (bit & 7)) !== 0 && this.#link.isOn(this.#slot)
  }

  /** The event's name: as the daemon has granted it, with the prefix that a policy may add. */
  get name () {
    return (this.#link.number && native.name(this.#link.number, this.#slot)) || this.#name
  }

  /** The daemon's refusal, if it has refused the event, or refuses it since a later connection. */
  get refusal () {
    if (this.#refusal || this.#slot === 0 || this.#link.number === 0) return this.#refusal
    const refusal = native.refusal(this.#link.number, this.#slot)
    return refusal && new Refusal(refusal)
  }

  /**
   * Writes a record if the event is on: of these values, or of those that the function returns, which is called only then.
   * Never throws. False: the event is off, or the record is lost and counted (Connection.lost).
   */
  emit (values) {
    return this.on && this.#emit(values)
  }

  #emit (values) {
    try {
      if (!this.#fields) throw new Wrong('the fields are unknown; use write()')
      return this.#write(this.#fields.encode(this.#link, typeof values === 'function' ? values() : values))
    } catch (error) {
      return this.#lose(error)
    }
  }

  /** Writes a record if the event is on: its payload, bytes that are laid out as the description says. Otherwise as emit(). */
  write (payload) {
    if (!this.on) return false
    try {
      if (!ArrayBuffer.isView(payload)) throw new Wrong('the payload is not bytes')
      const bytes = new Uint8Array(payload.buffer, payload.byteOffset, payload.byteLength)
      this.#link.layouts++
      if (bytes.length <= this.#link.bytes.length) this.#link.bytes.set(bytes)
      return this.#write(bytes.length)
    } catch (error) {
      return this.#lose(error)
    }
  }

  #write (size) {
    // The values may have closed the connection. All sizes that are too big are the same to the addon, whose numbers have 32 bits.
    const { number, bytes } = this.#link
    const written = number && native.write(number, this.#slot, Math.min(size, bytes.length + 1))
    if (written === -EINVAL) throw new Wrong('the payload is shorter than the fields')
    return written > 0
  }

  // Tracing ends no program, and is silent in none: a wrong record is counted, and the first of an event is a warning.
  #lose (error) {
    this.#link.wrong++
    if (!this.#warned) process.emitWarning(`${this.#name}: ${sentenceOf(error)}. The record is not written.`, 'UserevWarning')
    this.#warned = true
    return false
  }

  /** Releases the event: it is off from now on. */
  release () {
    if (this.#slot !== 0) this.#link.release(this.#slot)
    this.#place(0)
  }

  /** @internal Whether the daemon has yet to answer. */
  get isOwed () {
    return this.#link.isOwed && this.#link.isPending(this.#slot)
  }
}

/** A connection to the daemon, which is made again whenever the daemon was restarted. */
class Connection {
  #link

  /** @internal */
  constructor (socket) {
    this.#link = new Link(socket)
  }

  #register (described, description, { persist = false, multiFormat = false, wait = WAIT_MS } = {}) {
    if (typeof description !== 'string') throw new TypeError('a description is a string')
    const { slot, refusal } = this.#link.register(description, (persist ? 1 : 0) | (multiFormat ? 2 : 0), wait)
    return new TraceEvent(this.#link, described, slot, refusal)
  }

  /**
   * Registers an event, described as in userevd-protocol(7): 'shop_request u32 status; __rel_loc char[] path'. Throws a Refusal if the
   * daemon refuses it. Waits for its answer for up to `wait` milliseconds, 200 by default, and not again while the daemon does not answer.
   */
  register (description, options) {
    return this.#granted(this.#register(parse(description), description, options))
  }

  /** The same without blocking. The promise is resolved without an answer if there is no daemon, or none that answers in two seconds. */
  async registerAsync (description, options) {
    const event = this.#register(parse(description), description, { ...options, wait: 0 })
    for (let ms = 1; ms < WAIT_ASYNC_MS && event.isOwed; ms *= 2) await sleep(ms)
    return this.#granted(event)
  }

  #granted (event) {
    const { refusal } = event
    if (!refusal) return event
    event.release()
    throw refusal
  }

  /**
   * Registers an event with typed fields: declare('shop_request', { status: 'u32', path: 'string' }). A refused event is no exception
   * here, so that a module can declare events while it is loaded: it is off, and its property refusal says why. Throws for wrong names,
   * types and options, if the connection is closed, and if it has 32767 events.
   */
  declare (name, fields, options) {
    const described = describe(name, fields)
    return this.#register(described, described.description, options)
  }

  /** Why there is no daemon; undefined if there is one. */
  get problem () {
    return this.#link.number === 0 ? 'the connection is closed' : native.problem(this.#link.number)
  }

  /** How many records were lost: the tracer's queue was full, they were too big, or their values were wrong. */
  get lost () {
    const [queueFull, tooBig] = this.#link.number === 0 ? [0, 0] : native.lost(this.#link.number)
    return { queueFull, tooBig, wrong: this.#link.wrong }
  }

  /** Ends the connection: all of its events are off from now on. */
  close () {
    this.#link.close()
  }
}

/**
 * Opens a connection to the daemon at `socket`, by default as userevd-protocol(7) says. Succeeds without a daemon, and never waits. Throws
 * for a path that is too long for a socket, and if the thread has 256 connections.
 */
function open ({ socket } = {}) {
  return new Connection(socket)
}

/**
 * Emits a record for each message of a channel of node:diagnostics_channel, while the event is on:
 *
 *   const map = ({ request }) => ({ url: request.url })
 *   channel(conn, 'http.server.request.start', { name: 'http_request', fields: { url: 'string' }, map })
 *
 * A channel with subscribers makes its messages whether or not the event is on. close() unsubscribes and releases the event.
 */
function channel (connection, channelName, { name, fields, map = message => message, ...options }) {
  const event = connection.declare(name, fields, options)
  const listener = message => { event.emit(() => map(message)) }
  diagnostics.subscribe(channelName, listener)
  return {
    event,
    close () {
      diagnostics.unsubscribe(channelName, listener)
      event.release()
    }
  }
}

module.exports = { Connection, Refusal, TraceEvent, channel, open }
module.exports.default = module.exports // for require(), too, as index.d.ts says
