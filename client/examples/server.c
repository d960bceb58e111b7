/* SPDX-License-Identifier: CC0-1.0 */

/*
 * An HTTP server on a local port; /time returns the time.
 *
 *	server [PORT [REQUESTS]]
 *
 * One event for requests, with their duration, and one for connections that fail. While the events are off the server does not
 * read the clock.
 *
 * cc server.c $(pkg-config --cflags --libs libuserev)
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <userev.h>

USEREV_EVENT(server, request, (u32, status), (u64, ns), (string, path));
USEREV_EVENT(server, failure, (s32, error), (chars, what, 16));

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* The path of "GET /path HTTP/1.1", terminated. */
static const char *path_of(char *request)
{
	char *path = strchr(request, ' ');

	if (!path)
		return "";
	path++;
	path[strcspn(path, " \r\n")] = '\0';
	return path;
}

static uint32_t answer(int connection, const char *path)
{
	uint32_t status = strcmp(path, "/time") == 0 ? 200 : 404;

	dprintf(connection, "HTTP/1.0 %u\r\nContent-Type: text/plain\r\n\r\n%lld\n", status,
		status == 200 ? (long long)time(NULL) : 0);
	return status;
}

static void serve(int connection)
{
	uint64_t begun = userev_on(server_request) ? now() : 0;
	char request[1024];
	ssize_t length = read(connection, request, sizeof(request) - 1);
	const char *path;
	uint32_t status;

	if (length <= 0) {
		userev_emit(server_failure, length < 0 ? errno : 0, "read");
		return;
	}
	request[length] = '\0';
	path = path_of(request);
	status = answer(connection, path);
	if (begun)
		userev_emit(server_request, status, now() - begun, path);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 8080)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listening = socket(AF_INET, SOCK_STREAM, 0), left = argc > 2 ? atoi(argv[2]) : -1;

	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listening, 64) < 0) {
		perror("server");
		return 1;
	}
	while (left-- != 0) {
		int connection = accept(listening, NULL, NULL);

		if (connection < 0) {
			userev_emit(server_failure, errno, "accept");
			continue;
		}
		serve(connection);
		close(connection);
	}
	return 0;
}
