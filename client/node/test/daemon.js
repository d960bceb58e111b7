// SPDX-License-Identifier: LGPL-2.1-or-later
'use strict'

// A daemon in a temporary directory, with the best backend of this machine; and programs that only look like one.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const readline = require('node:readline')
const { setTimeout: sleep } = require('node:timers/promises')

const TIMEOUT_MS = 60000
const build = program => path.join(process.env.B, program)

async function until (condition) {
  for (const end = Date.now() + TIMEOUT_MS; !await condition();) {
    if (Date.now() > end) throw new Error(`never: ${condition}`)
    await sleep(10)
  }
}

class Daemon {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'userev-node-'))
  socket = path.join(this.directory, 'socket')
  control = path.join(this.directory, 'control')
  #process
  #tails = []

  async start () {
    this.#process = spawn(build('userevd'), ['--foreground', '--exit-with-parent', `--socket=${this.socket}`,
      `--control-socket=${this.control}`, '--ready-fd=3', '--max-events=6000'],
    { stdio: ['ignore', 'ignore', fs.openSync(path.join(this.directory, 'log'), 'a'), 'pipe'] })
    const [ready] = await once(this.#process.stdio[3], 'data')
    if (String(ready) !== '\n') throw new Error('the daemon does not start')
  }

  async kill (signal = 'SIGKILL') {
    this.#process.kill(signal)
    await once(this.#process, 'exit')
    // A process of the daemon's removes the socket.
    await until(() => !fs.existsSync(this.socket))
  }

  // Records of these events, as they come.
  tail (pattern) {
    const tail = spawn(build('userevctl'), ['tail', '--json', '--wait', pattern],
      { env: { ...process.env, USEREV_CONTROL_SOCKET: this.control }, stdio: ['ignore', 'pipe', 'ignore'] })
    const records = []
    const lines = readline.createInterface({ input: tail.stdout }).on('line', line => records.push(JSON.parse(line)))
    const end = () => {
      lines.close()
      tail.kill()
    }
    this.#tails.push(end)
    return { records, end }
  }

  async end () {
    for (const end of this.#tails) end()
    if (this.#process?.exitCode === null) await this.kill('SIGTERM')
    fs.rmSync(this.directory, { recursive: true })
  }
}

// It takes connections, answers HELLO if there is a page, and says nothing more.
const FAKE = `
import os, socket, struct, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(9)
page = os.memfd_create("page", os.MFD_ALLOW_SEALING)
os.write(page, (b"\\xff" if sys.argv[2] == "abandoned" else b"\\0") * 4096)
import fcntl
fcntl.fcntl(page, 1033, 2) # F_ADD_SEALS, F_SEAL_SHRINK
print("ready", flush=True)
connections = []
while True:
    connections.append(listener.accept()[0])
    if sys.argv[2] != "hangs":
        body = struct.pack("<QIIIIIIHHI", 1, 4096, 32768, 4064, 131072, 512, 1024, 1, 0, 0)
        serial = struct.unpack("<IHBBII", connections[-1].recv(131072)[:16])[4]
        packet = struct.pack("<IHBBII", 16 + len(body), 2, 0, 0, serial, 0) + body
        socket.send_fds(connections[-1], [packet], [page])
`

async function fake (socket, kind) {
  const program = spawn('python3', ['-c', FAKE, socket, kind], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(program.stdout, 'data')
  return program
}

module.exports = { Daemon, fake, until }
