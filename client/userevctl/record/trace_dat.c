/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The file around the pages: trace.dat of trace-cmd, version 7, as trace-cmd.dat.v7(5) describes it.
 *
 *	0			the header, with the offset of the options
 *	DAT_PAGE		half 0: options, then what they point at
 *	DAT_PAGE + DAT_HALF	half 1
 *	DAT_DATA		pages, one behind the other, as of one CPU
 *
 * Events come while the pages grow, and the texts about them have to be in one place. So the texts are written again into the half that
 * the header does not point at, and then the header is changed: whenever the recorder is killed, the file is a whole one, up to the
 * pages that its options count. Halves are hardly filled; what is not written takes no room on the disk.
 */

#include "client/userevctl/record/trace_dat.h"

#include <inttypes.h>
#include <stdio.h>

enum {
	OPTION_DONE = 0,
	OPTION_CPUSTAT = 2,
	OPTION_BUFFER = 3,
	OPTION_CPUCOUNT = 8,
	OPTION_VERSION = 9,
	OPTION_HEADER_INFO = 16,
	OPTION_EVENT_FORMATS = 18,
	OPTION_CMDLINES = 21,

	SECTION_HEADER = 16,
	OPTION_HEADER = 6,
	VERSION_MAX = 64,
	STATS_MAX = 192,
};

static const uint8_t magic[] = { 0x17,
				 0x08,
				 0x44,
				 't',
				 'r',
				 'a',
				 'c',
				 'i',
				 'n',
				 'g',
				 '7',
				 '\0',
				 __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
				 sizeof(uint64_t) };
static const char program[] = "userevctl ";

static const char page_header[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				  "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				  "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				  "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
static const char entry_header[] = "# compressed entry header\n"
				   "\ttype_len    :    5 bits\n"
				   "\ttime_delta  :   27 bits\n"
				   "\tarray       :   32 bits\n\n"
				   "\tpadding     : type == 29\n"
				   "\ttime_extend : type == 30\n"
				   "\ttime_stamp : type == 31\n"
				   "\tdata max type_len  == 28\n";

void bytes_put(struct bytes *bytes, const void *data, size_t size)
{
	if (bytes->n <= bytes->size && size > 0 && size <= bytes->size - bytes->n)
		memcpy(bytes->at + bytes->n, data, size);
	bytes->n += size;
}

static void put_u16(struct bytes *bytes, uint16_t number)
{
	bytes_put(bytes, &number, sizeof(number));
}

static void put_u32(struct bytes *bytes, uint32_t number)
{
	bytes_put(bytes, &number, sizeof(number));
}

static void put_u64(struct bytes *bytes, uint64_t number)
{
	bytes_put(bytes, &number, sizeof(number));
}

static uint64_t half_place(unsigned half)
{
	return DAT_PAGE + (uint64_t)half * DAT_HALF;
}

void dat_put_header(struct bytes *out, unsigned half, bool compressed)
{
	bytes_put(out, magic, sizeof(magic));
	put_u32(out, DAT_PAGE);
	/* The compression, and its version, which readers do not ask for. */
	bytes_put(out, compressed ? "zstd\0" : "none\0", sizeof("none\0"));
	put_u64(out, half_place(half));
}

bool dat_read_header(const uint8_t header[static DAT_HEADER], unsigned *ret_half, bool *ret_compressed)
{
	uint8_t other[DAT_HEADER] = { 0 };

	for (unsigned i = 0; i < 4; i++) {
		struct bytes bytes = { .at = other, .size = sizeof(other) };

		*ret_half = i & 1;
		*ret_compressed = i & 2;
		dat_put_header(&bytes, *ret_half, *ret_compressed);
		if (memcmp(header, other, sizeof(other)) == 0)
			return true;
	}
	return false;
}

static void put_section(struct bytes *out, uint16_t id, uint64_t size, bool compressed)
{
	put_u16(out, id);
	put_u16(out, compressed);
	put_u32(out, 0); /* no description */
	put_u64(out, size);
}

static void put_option(struct bytes *out, uint16_t id, const void *data, uint32_t size)
{
	put_u16(out, id);
	put_u32(out, size);
	bytes_put(out, data, size);
}

static uint64_t header_info_size(void)
{
	return sizeof("header_page") + sizeof("header_event") + 2 * sizeof(uint64_t) + strlen(page_header) +
	       strlen(entry_header);
}

static uint64_t formats_size(const struct dat_texts *texts)
{
	return sizeof(uint32_t) + sizeof("user_events") + sizeof(uint32_t) + texts->formats.n;
}

/* A text for trace-cmd, which shows it, and for dat_read_options(). */
static const char stats_form[] = "CPU: 0\nentries: %20" PRIu64 "\noverrun: %20" PRIu64 "\nended: %d\n";
static const char stats_scan[] = "CPU: 0\nentries: %" SCNu64 "\noverrun: %" SCNu64 "\nended: %d\n";

static void put_buffer(struct bytes *out, uint64_t section, const struct totals *totals)
{
	uint8_t buffer[64];
	struct bytes data = { .at = buffer, .size = sizeof(buffer) };

	put_u64(&data, section);
	bytes_put(&data, "\0local", sizeof("\0local")); /* the top instance, and its clock */
	put_u32(&data, DAT_PAGE);
	put_u32(&data, 1); /* CPUs */
	put_u32(&data, 0); /* the number of this one */
	put_u64(&data, DAT_DATA);
	put_u64(&data, totals->bytes);
	put_option(out, OPTION_BUFFER, data.at, (uint32_t)data.n);
}

void dat_put_options(struct bytes *out, unsigned half, const struct dat_texts *texts, const struct totals *totals)
{
	static const uint32_t cpus = 1;
	static const uint64_t done;
	const uint64_t place = half_place(half), headers = place + DAT_LEAD;
	const uint64_t formats = headers + SECTION_HEADER + header_info_size();
	const uint64_t comms = formats + SECTION_HEADER + formats_size(texts);
	char version[VERSION_MAX] = "", stats[STATS_MAX] = "";

	snprintf(version, sizeof(version), "%s%s", program, VERSION);
	snprintf(stats, sizeof(stats), stats_form, totals->records, totals->lost, totals->ended);
	put_section(out, OPTION_DONE, DAT_LEAD - 2 * SECTION_HEADER, false);
	put_option(out, OPTION_VERSION, version, sizeof(version));
	put_option(out, OPTION_CPUCOUNT, &cpus, sizeof(cpus));
	put_option(out, OPTION_HEADER_INFO, &headers, sizeof(headers));
	put_option(out, OPTION_EVENT_FORMATS, &formats, sizeof(formats));
	put_option(out, OPTION_CMDLINES, &comms, sizeof(comms));
	put_option(out, OPTION_CPUSTAT, stats, sizeof(stats));
	put_buffer(out, headers - SECTION_HEADER, totals);
	put_option(out, OPTION_DONE, &done, sizeof(done));
}

void dat_put_half(struct bytes *out, unsigned half, const struct dat_texts *texts, const struct totals *totals)
{
	static const uint8_t zeros[DAT_LEAD];

	dat_put_options(out, half, texts, totals);
	bytes_put(out, zeros, DAT_LEAD - SECTION_HEADER - out->n);
	put_section(out, OPTION_BUFFER, 0, texts->compressed);

	put_section(out, OPTION_HEADER_INFO, header_info_size(), false);
	bytes_put(out, "header_page", sizeof("header_page"));
	put_u64(out, strlen(page_header));
	bytes_put(out, page_header, strlen(page_header));
	bytes_put(out, "header_event", sizeof("header_event"));
	put_u64(out, strlen(entry_header));
	bytes_put(out, entry_header, strlen(entry_header));

	put_section(out, OPTION_EVENT_FORMATS, formats_size(texts), false);
	put_u32(out, 1); /* systems */
	bytes_put(out, "user_events", sizeof("user_events"));
	put_u32(out, texts->n_formats);
	bytes_put(out, texts->formats.at, texts->formats.n);

	put_section(out, OPTION_CMDLINES, sizeof(uint64_t) + texts->comms.n, false);
	put_u64(out, texts->comms.n);
	bytes_put(out, texts->comms.at, texts->comms.n);
}

/* The data of the option, which has to be that long; NULL: there is none. */
static const uint8_t *find_option(const uint8_t *options, size_t size, uint16_t wanted, size_t wanted_length)
{
	for (size_t at = SECTION_HEADER; at <= size && size - at >= OPTION_HEADER;) {
		uint16_t id;
		uint32_t length;

		memcpy(&id, options + at, sizeof(id));
		memcpy(&length, options + at + sizeof(id), sizeof(length));
		at += OPTION_HEADER;
		if (id == OPTION_DONE || length > size - at)
			return NULL;
		if (id == wanted)
			return length == wanted_length ? options + at : NULL;
		at += length;
	}
	return NULL;
}

bool dat_read_options(const uint8_t *options, size_t size, struct totals *ret)
{
	const size_t buffer_size = sizeof(uint64_t) + sizeof("\0local") + 3 * sizeof(uint32_t) + 2 * sizeof(uint64_t);
	const uint8_t *version = find_option(options, size, OPTION_VERSION, VERSION_MAX);
	const uint8_t *stats = find_option(options, size, OPTION_CPUSTAT, STATS_MAX);
	const uint8_t *buffer = find_option(options, size, OPTION_BUFFER, buffer_size);
	char text[STATS_MAX + 1] = "";
	int ended;

	if (!version || !stats || !buffer || memcmp(version, program, strlen(program)) != 0)
		return false;
	memcpy(text, stats, STATS_MAX);
	if (sscanf(text, stats_scan, &ret->records, &ret->lost, &ended) != 3)
		return false;
	ret->ended = ended == 1;
	memcpy(&ret->bytes, buffer + buffer_size - sizeof(uint64_t), sizeof(uint64_t));
	return true;
}
