// SPDX-License-Identifier: LGPL-2.1-or-later
'use strict'

// How an event's description becomes fields, and an object of values a record: see "WRITING RECORDS" in userevd-protocol(7).

const LITTLE = require('node:os').endianness() === 'LE'
const NAME = /^[A-Za-z_]\w*$/

// Values that are not of their field's type. Its message completes "the field … ".
class Wrong extends Error {}

function integer (size, signed) {
  const bits = 8 * size
  const end = 2 ** (signed ? bits - 1 : bits)
  const low = signed ? -end : 0
  const whole = size === 8 ? BigInt : Number
  const set = DataView.prototype[`set${size === 8 ? 'Big' : ''}${signed ? 'Int' : 'Uint'}${bits}`]
  return {
    size,
    put (view, at, value) {
      if (typeof value === 'boolean' || value == null) value = Number(value ?? 0)
      if (typeof value === 'number') value = Math.trunc(value)
      if ((typeof value !== 'number' && typeof value !== 'bigint') || !(value >= low && value < end)) {
        throw new Wrong(`is no number from ${BigInt(low)} to ${BigInt(end) - 1n}`)
      }
      set.call(view, at, whole(value), LITTLE)
    }
  }
}

function float (size) {
  const set = DataView.prototype[`setFloat${8 * size}`]
  return {
    size,
    put (view, at, value) {
      if (typeof value !== 'number' && value != null) throw new Wrong('is no number')
      set.call(view, at, value ?? 0, LITTLE)
    }
  }
}

// Copies a string or bytes, if there is room before `end`. Its length.
function copy (bytes, at, value, end = bytes.length) {
  value ??= ''
  const isText = typeof value === 'string'
  if (!isText && !ArrayBuffer.isView(value)) throw new Wrong('is neither a string nor bytes')
  const from = isText ? value : new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  const length = Buffer.byteLength(from)
  if (length > end - at) return length
  if (isText) bytes.write(value, at)
  else bytes.set(from, at)
  return length
}

function chars (size) {
  return {
    size,
    put (view, at, value, bytes) {
      const length = copy(bytes, at, value, at + size)
      if (length > size) throw new Wrong(`has ${length} bytes, and room for ${size}`)
      bytes.fill(0, at + length, at + size)
    }
  }
}

function struct (size) {
  return {
    size,
    put (view, at, value, bytes) {
      if (!ArrayBuffer.isView(value) || copy(bytes, at, value, at + size) !== size) throw new Wrong(`takes ${size} bytes`)
    }
  }
}

// `add` puts the data at the end, and returns their length.
const text = (view, at, value, bytes) => {
  const length = copy(bytes, at, value)
  if (at + length < bytes.length) bytes[at + length] = 0
  return length + 1
}

const array = element => (view, at, value, bytes) => {
  value ??= []
  if (element.size === 1 && ArrayBuffer.isView(value)) return copy(bytes, at, value)
  const length = Array.isArray(value) || ArrayBuffer.isView(value) ? value.length * element.size : NaN
  if (!(length >= 0)) throw new Wrong('is no array')
  for (let i = 0; i < value.length && at + length <= bytes.length; i++) element.put(view, at + i * element.size, value[i])
  return length
}

const INTEGERS = {
  s8: integer(1, true), s16: integer(2, true), s32: integer(4, true), s64: integer(8, true),
  u8: integer(1, false), u16: integer(2, false), u32: integer(4, false), u64: integer(8, false)
}
const { s8, u8, s16, u16, s32, u32 } = INTEGERS
const NUMBERS = {
  ...INTEGERS, char: s8, 'unsigned char': u8, short: s16, 'unsigned short': u16, int: s32, 'unsigned int': u32
}
// Of declare(): what the description says, and how values are put if not as it says.
const TYPES = {
  ...Object.fromEntries(Object.keys(INTEGERS).map(type => [type, name => `${type} ${name}`])),
  bool: name => `u8 ${name}`,
  f32: name => `u32 ${name.replace(/_f32$/, '')}_f32`,
  f64: name => `u64 ${name.replace(/_f64$/, '')}_f64`,
  string: name => `__rel_loc char[] ${name}`,
  bytes: name => `__rel_loc u8[] ${name}`
}
const FLOATS = { f32: float(4), f64: float(8) }

function parseField (words) {
  const one = /^(?:(__rel_loc|__data_loc) )?((?:unsigned )?\w+)(\[\d*\])? (\w+)$/.exec(words)
  const opaque = /^struct \w+ (\w+) (\d+)$/.exec(words)
  if (opaque) return { key: opaque[1], kind: struct(Number(opaque[2])) }
  if (!one || !Object.hasOwn(NUMBERS, one[2])) throw new Wrong(`'${words}' is of no known type`)
  const [, location, type, dimension, key] = one
  if (location) {
    const add = type.endsWith('char') ? text : array(NUMBERS[type])
    return { key, kind: { size: 4, isRelative: location === '__rel_loc', add } }
  }
  return { key, kind: dimension ? chars(Number(dimension.slice(1, -1))) : NUMBERS[type] }
}

// The fields of an event, in their order.
class Fields {
  #list
  #size = 0
  #keys

  constructor (list) {
    this.#list = list
    this.#keys = new Set(list.map(({ key }) => key))
    for (const { kind } of list) this.#size += kind.size
  }

  // Lays out a record in the bytes of a link. Its size, which may be larger than they have room for.
  encode (link, values) {
    if (typeof values !== 'object' || values === null) throw new Wrong('the values are no object')
    // All are read before the first is put: a getter may emit an event, too.
    const read = this.#list.map(({ key }) => values[key])
    for (const key in values) if (!this.#keys.has(key)) throw new Wrong(`there is no field ${key}`)
    const { bytes, view } = link
    const layout = ++link.layouts
    let at = 0
    let end = this.#size
    if (end > bytes.length) return end
    for (let i = 0; i < read.length; i++) {
      const { key, kind } = this.#list[i]
      try {
        if (kind.put) {
          kind.put(view, at, read[i], bytes)
        } else {
          const length = kind.add(view, end, read[i], bytes)
          view.setUint32(at, length << 16 | (kind.isRelative ? end - at - 4 : end + 8), LITTLE)
          end += length
          if (end > bytes.length) return end
        }
      } catch (error) {
        throw error instanceof Wrong ? new Wrong(`the field ${key} ${error.message}`) : error
      }
      at += kind.size
    }
    if (link.layouts !== layout) throw new Wrong('an element of an array emitted another record')
    return end
  }
}

// Of a description that this does not understand, the daemon will say what is wrong; undefined then.
function parse (description) {
  const [, name, fields] = /^\s*([^\s:;]*)(?::[^\s;]*)?([^]*)$/.exec(description)
  try {
    const list = fields.split(';').map(words => words.trim().replace(/\s+/g, ' ')).filter(Boolean).map(parseField)
    return { name, fields: new Fields(list) }
  } catch {
    return { name }
  }
}

// The description of an event, and its fields, from their names and types.
function describe (name, fields) {
  if (!NAME.test(name)) throw new TypeError(`'${name}' is no name of an event: use letters, digits and _`)
  const list = []
  const described = Object.entries(fields).map(([key, type]) => {
    const size = /^char\[([1-9]\d*)\]$/.exec(type)
    if (!NAME.test(key)) throw new TypeError(`'${key}' is no name of a field: use letters, digits and _`)
    if (!size && !Object.hasOwn(TYPES, type)) {
      throw new TypeError(`the field ${key}: '${type}' is no type: use ${Object.keys(TYPES).join(', ')} or char[N]`)
    }
    const description = size ? `${type} ${key}` : TYPES[type](key)
    list.push({ key, kind: FLOATS[type] ?? parseField(description).kind })
    return description
  })
  return { name, description: [name, described.join('; ')].join(' ').trim(), fields: new Fields(list) }
}

module.exports = { Wrong, describe, parse }
