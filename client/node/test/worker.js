// SPDX-License-Identifier: LGPL-2.1-or-later
'use strict'

// Emits until it is terminated.

const { parentPort, workerData } = require('node:worker_threads')
const userev = require('userev')

const conn = userev.open({ socket: workerData })
const other = userev.open({ socket: workerData })
const event = conn.declare('work', { x: 'u32' })
other.declare('work', { x: 'u32' })

function work () {
  for (let x = 0; x < 100; x++) event.emit({ x })
  if (event.on) parentPort.postMessage('emits')
  setImmediate(work)
}

work()
