#!/usr/bin/env node
// SPDX-License-Identifier: LGPL-2.1-or-later
'use strict'

// An HTTP server that emits a record for each response. To see them: userevctl tail http_request

const http = require('node:http')
const userev = require('userev')

const conn = userev.open()
const request = conn.declare('http_request', { status: 'u16', us: 'u32', method: 'string', url: 'string' })

const server = http.createServer((incoming, response) => {
  const began = performance.now()
  response.on('finish', () => {
    // Nothing is computed unless a tracer wants it.
    request.emit(() => ({
      status: response.statusCode,
      us: (performance.now() - began) * 1000,
      method: incoming.method,
      url: incoming.url
    }))
  })
  response.end('hello\n')
})

server.listen(Number(process.env.PORT ?? 8080), () => console.log(`port ${server.address().port}`))
