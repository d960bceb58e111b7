// SPDX-License-Identifier: LGPL-2.1-or-later

/** Types of declared fields: numbers, `char[N]` (at most N bytes of text), text and bytes of any length. */
export type FieldType =
  | 'u8' | 'u16' | 'u32' | 'u64' | 's8' | 's16' | 's32' | 's64'
  | 'f32' | 'f64' | 'bool' | 'string' | 'bytes' | `char[${number}]`

export type Value<Type> =
  Type extends 'bool' ? boolean
    : Type extends 'f32' | 'f64' ? number
      : Type extends 'bytes' ? ArrayBufferView
        : Type extends 'string' | `char[${number}]` ? string | ArrayBufferView
          : number | bigint | boolean

/** A field that is missing, undefined or null is 0 or empty. */
export type Values<Fields> = { [Name in keyof Fields]?: Value<Fields[Name]> | null }

/** Of an event that was registered by its description. */
export type AnyValues =
  Record<string, number | bigint | boolean | string | ArrayBufferView | ReadonlyArray<number | bigint | boolean> | null | undefined>

/** Why the daemon refuses an event: `message` is its sentence. */
export class Refusal extends Error {
  private constructor ()
  /** Its name as in userevd-protocol(7): 'quota-exceeded'. */
  readonly reason: string
}

/** An event that is registered, or will be when there is a daemon. */
export class TraceEvent<V = AnyValues> {
  private constructor ()
  /** Whether a tracer has the event on. Two loads and a test while it is off. */
  readonly on: boolean
  /** The event's name: as the daemon has granted it, with the prefix that a policy may add. */
  readonly name: string
  /** The daemon's refusal, if it has refused the event, or refuses it since a later connection. */
  readonly refusal: Refusal | undefined
  /**
   * Writes a record if the event is on: of these values, or of those that the function returns, which is called only then.
   * Never throws. False: the event is off, or the record is lost and counted (Connection.lost).
   */
  emit (values: V | (() => V)): boolean
  /** Writes a record if the event is on: its payload, bytes that are laid out as the description says. Otherwise as emit(). */
  write (payload: ArrayBufferView): boolean
  /** Releases the event: it is off from now on. */
  release (): void
}

export interface EventOptions {
  /** Keep the event after its last program has gone, where policy and kernel allow it. */
  persist?: boolean
  /** Allow events of the same name with other fields. */
  multiFormat?: boolean
  /**
   * For how many milliseconds to wait for the daemon's answer, and not again while it does not answer: by default 200. 0 never waits;
   * any other wait is at least $USEREV_WAIT.
   */
  wait?: number
}

/** A connection to the daemon, which is made again whenever the daemon was restarted. */
export class Connection {
  private constructor ()
  /**
   * Registers an event, described as in userevd-protocol(7): 'shop_request u32 status; __rel_loc char[] path'. Throws a Refusal if the
   * daemon refuses it.
   */
  register (description: string, options?: EventOptions): TraceEvent
  /** The same without blocking. The promise is resolved without an answer if there is no daemon, or none that answers in two seconds. */
  registerAsync (description: string, options?: Omit<EventOptions, 'wait'>): Promise<TraceEvent>
  /**
   * Registers an event with typed fields. A refused event is no exception here: it is off, and its property refusal says why. Throws for
   * wrong names, types and options, if the connection is closed, and if it has 32767 events.
   */
  declare<Fields extends Record<string, FieldType>> (
    name: string, fields: Fields, options?: EventOptions
  ): TraceEvent<Values<Fields>>
  /** Why there is no daemon; undefined if there is one. */
  readonly problem: string | undefined
  /** How many records were lost: the tracer's queue was full, they were too big, or their values were wrong. */
  readonly lost: { queueFull: number, tooBig: number, wrong: number }
  /** Ends the connection: all of its events are off from now on. */
  close (): void
}

/**
 * Opens a connection to the daemon at `socket`, by default as userevd-protocol(7) says. Succeeds without a daemon, and never waits. Throws
 * for a path that is too long for a socket, and if the thread has 256 connections.
 */
export function open (options?: { socket?: string }): Connection

/**
 * Emits a record for each message of a channel of node:diagnostics_channel, while the event is on. A channel with subscribers makes its
 * messages whether or not the event is on. close() unsubscribes and releases the event.
 */
export function channel<Fields extends Record<string, FieldType>> (
  connection: Connection,
  channelName: string | symbol,
  declaration: EventOptions & { name: string, fields: Fields, map?: (message: any) => Values<Fields> }
): { readonly event: TraceEvent<Values<Fields>>, close (): void }

declare const userev: {
  Connection: typeof Connection
  Refusal: typeof Refusal
  TraceEvent: typeof TraceEvent
  channel: typeof channel
  open: typeof open
}
export default userev
