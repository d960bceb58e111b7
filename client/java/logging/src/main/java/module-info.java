// SPDX-License-Identifier: LGPL-2.1-or-later

/** Messages of System.Logger as trace events. */
module dev.userevd.userev.logging {
    requires transitive dev.userevd.userev;

    exports dev.userevd.userev.logging;

    provides System.LoggerFinder with dev.userevd.userev.logging.UserevLoggerFinder;
}
