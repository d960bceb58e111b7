#!/usr/bin/node
// SPDX-License-Identifier: GPL-2.0-or-later
'use strict'

// The driver of the client for Node: see README.

const readline = require('node:readline')
const { setTimeout: sleep } = require('node:timers/promises')
const userev = require('userev')

const TIMEOUT_MS = 60000
const WAIT_MS = 10000
const connections = new Map()
let current

// Of wrong values, which are the suite's own.
process.removeAllListeners('warning')

function use (number) {
  if (!connections.has(number)) connections.set(number, { conn: userev.open(), events: new Map() })
  current = connections.get(number)
  return 'ok'
}

function register (description) {
  try {
    const event = current.conn.register(description, { wait: WAIT_MS })
    current.events.set(/[^\s:;]+/.exec(description)[0], event)
    return 'ok'
  } catch (error) {
    return error instanceof userev.Refusal ? `refused ${error.message}` : `error: ${error.stack}`
  }
}

async function awaitState (event, [wanted]) {
  const end = Date.now() + TIMEOUT_MS
  while (event.on !== (wanted === 'yes') && Date.now() < end) await sleep(5)
  return event.on ? 'yes' : 'no'
}

function numberOf (text) {
  const number = BigInt(text)
  return Number.isSafeInteger(Number(number)) ? Number(number) : number
}

function valueOf (text) {
  if (text.startsWith('"')) return decodeURIComponent(text.slice(1))
  if (text.startsWith('#')) return Buffer.from(text.slice(1), 'hex')
  if (text.startsWith('[')) return text.slice(1, -1).split(',').filter(Boolean).map(numberOf)
  return numberOf(text)
}

function write (event, words) {
  const values = Object.fromEntries(words.map(word => /^(.*?)=(.*)$/.exec(word)).map(([, name, text]) => [name, valueOf(text)]))
  const before = current.conn.lost
  if (event.emit(values)) return 'written'
  const { wrong, queueFull, tooBig } = current.conn.lost
  if (wrong > before.wrong) return 'wrong value'
  return queueFull + tooBig > before.queueFull + before.tooBig ? 'lost' : 'off'
}

function measure (event, [turns]) {
  const begin = process.hrtime.bigint()
  for (let turn = 0, n = Number(turns); turn < n; turn++) {
    if (event.on) event.emit({ status: 404, turn, path: '/favicon.ico' })
  }
  return process.hrtime.bigint() - begin
}

function release (event, words, name) {
  event.release()
  current.events.delete(name)
  return 'ok'
}

async function obey (command, [first, ...rest]) {
  if (command === 'can') return 'hold answer connections'
  if (command === 'use') return use(first)
  if (command === 'register') return register(first)
  const event = current.events.get(first)
  if (!event) return `error: there is no event ${first}`
  return { await: awaitState, write, release, measure }[command](event, rest, first)
}

async function main () {
  use('0')
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...words] = line.split('\t')
    console.log(await obey(command, words))
  }
  for (const { conn } of connections.values()) conn.close()
}

main()
