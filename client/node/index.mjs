// SPDX-License-Identifier: LGPL-2.1-or-later

import userev from './index.js'

export const { Connection, Refusal, TraceEvent, channel, open } = userev
export default userev
