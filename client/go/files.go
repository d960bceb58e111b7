// SPDX-License-Identifier: LGPL-2.1-or-later

package userev

import "syscall"

// Files that come over the socket are checked before they are used: a page that another process can shrink would end the program by
// SIGBUS, and a file of another kind could make a writer wait.

const (
	magicTmpfs   = 0x01021994
	magicTracefs = 0x74726163
	statReadOnly = 1
	getSeals     = 1034 // F_GET_SEALS
	sealShrink   = 2
)

func fcntl(fd, command int) int {
	r, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), uintptr(command), 0)
	if errno != 0 {
		return 0
	}
	return int(r)
}

// pageSize returns how much of the page's file is mapped: with the bytes for traces, or without.
func pageSize(fd, socket int) (uintptr, error) {
	var where syscall.Statfs_t
	var status syscall.Stat_t
	if syscall.Fstatfs(fd, &where) != nil || syscall.Fstat(fd, &status) != nil {
		return 0, errPacket
	}
	if int64(where.Type) == magicTracefs {
		return pageBytes, nil
	}
	peer, err := syscall.GetsockoptUcred(socket, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil || int64(where.Type) != magicTmpfs || status.Mode&syscall.S_IFMT != syscall.S_IFREG || status.Size < pageBytes {
		return 0, errPacket
	}
	private := status.Mode&0o022 == 0 && (status.Uid == 0 || status.Uid == peer.Uid)
	if fcntl(fd, getSeals)&sealShrink == 0 && int64(where.Flags)&statReadOnly == 0 && peer.Uid != 0 && !private {
		return 0, errPacket
	}
	if status.Size < pageFileBytes {
		return pageBytes, nil
	}
	return pageFileBytes, nil
}

// checkDataFile: a record can be written there, to a file of tracefs or to a socket.
func checkDataFile(fd int) (isSocket, ok bool) {
	var where syscall.Statfs_t
	if syscall.Fstatfs(fd, &where) == nil && int64(where.Type) == magicTracefs {
		return false, true
	}
	family, _ := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_DOMAIN)
	kind, _ := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	return true, family == syscall.AF_UNIX && kind == syscall.SOCK_SEQPACKET
}
