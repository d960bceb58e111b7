// SPDX-License-Identifier: LGPL-2.1-or-later
'use strict'

// Between JavaScript and the addon: the memory of a connection, which events are tested in, and its looks for the daemon.

// Not the globals, which a program's tests may replace.
const { setTimeout, clearTimeout } = require('node:timers')

const PENDING_BIT = 0x8000 // in an event's place: it has no grant of this connection yet
const BIT = 0x7fff

// Where there is no addon, on other systems, or none that works, events are off. The memory is zeros.
const absent = reason => ({
  scratchSize: 0,
  eventsMax: Infinity,
  eventSize: 0,
  bitAt: 0,
  pageAt: 0,
  open: () => [1, new ArrayBuffer(8)],
  look: () => 0x7fffffff,
  problem: () => reason,
  lost: () => [0, 0],
  close () {},
  register () {},
  release () {},
  refusal () {},
  name () {}
})

function load () {
  try {
    const addon = require(`./prebuilds/${process.platform}-${process.arch}/userev.node`)
    addon.close(addon.open('/')[0]) // fails where ArrayBuffers of an addon's memory are forbidden, as in Electron
    return addon
  } catch (error) {
    return absent(`there is no usable addon for ${process.platform} on ${process.arch}: ${error.message}`)
  }
}

const native = load()

// A link is referenced by its events, and not by its timer: without them it is collected, and the connection ends.
function look (reference) {
  reference.deref()?.look()
}

class Link {
  number
  bits // of the places of all events; event i has element i * STEP
  page // the status page
  bytes // where a record is laid out
  view // the same
  layouts = 0 // that were begun there
  wrong = 0
  isOwed = false // an answer, by the daemon
  #free = []
  #slots = 0 // slot 0 is of no event
  #timer

  static STEP = native.eventSize / Uint16Array.BYTES_PER_ELEMENT

  constructor (socket) {
    const [number, memory] = native.open(socket)
    this.number = number
    this.bits = new Uint16Array(memory, native.bitAt)
    this.page = new Uint8Array(memory, native.pageAt)
    this.bytes = Buffer.from(memory, 0, native.scratchSize)
    this.view = new DataView(memory, 0, native.scratchSize)
    this.look()
  }

  // Reads what the daemon has sent, and connects if there is none. Without a daemon the pauses grow to five seconds.
  look () {
    if (this.number === 0) return
    clearTimeout(this.#timer)
    const pause = native.look(this.number)
    this.isOwed = pause < 0
    this.#timer = setTimeout(look, Math.abs(pause), new WeakRef(this)).unref()
  }

  // Returns the slot of the event, and the refusal.
  register (description, flags, wait) {
    if (this.number === 0) throw new Error('the connection is closed')
    const slot = this.#free.pop() ?? ++this.#slots
    if (slot >= native.eventsMax) throw new RangeError('there are too many events')
    let refusal = true
    try {
      refusal = native.register(this.number, slot, description, flags, wait)
    } finally {
      if (refusal) this.#free.push(slot)
    }
    if (!refusal && this.isPending(slot)) this.look()
    return { slot: refusal ? 0 : slot, refusal }
  }

  release (slot) {
    if (this.number === 0) return
    native.release(this.number, slot)
    this.#free.push(slot)
  }

  isPending (slot) {
    return this.bits[slot * Link.STEP] === PENDING_BIT
  }

  // Of an event whose bit is set: the page may be abandoned, and then all bits are; or its grant be a former connection's.
  isOn (slot) {
    if (slot === 0 || this.number === 0) return false
    if ((this.page[0] & 1) !== 0) this.look()
    else if ((this.bits[slot * Link.STEP] & PENDING_BIT) === 0) return true
    return native.on(this.number, slot) === 1
  }

  close () {
    if (this.number === 0) return
    clearTimeout(this.#timer)
    native.close(this.number)
    this.number = 0
  }
}

module.exports = { BIT, Link, native }
