package controlplane

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// defaultPort is the API server's port of the first control plane on a machine.
const defaultPort = 16443

// choosePort listens on the port of the API server: the one asked for, which
// must be free; else the folder's last; else defaultPort; else any that is free.
// The listener is kept and handed to the API server, so no other process takes the
// port in between.
func choosePort(asked, last int) (net.Listener, error) {
	if asked != 0 {
		l, err := listenPort(asked)
		if err != nil {
			return nil, fmt.Errorf("listen on 127.0.0.1:%d: %w%s; omit --port to use a free one", asked, err, holder(asked))
		}
		return l, nil
	}
	for _, port := range []int{last, defaultPort} {
		if port == 0 {
			continue
		}
		if l, err := listenPort(port); err == nil {
			return l, nil
		}
	}
	l, err := listenPort(0)
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	return l, nil
}

// listenPort listens on a port of the loopback address.
func listenPort(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errors.New("the port is in use")
	}
	return l, err
}

// holder names the process that listens on a port, as " by NAME (pid N)", or ""
// where that cannot be told (another user's process, or no /proc).
func holder(port int) string {
	inode := listenInode("/proc/net/tcp", port)
	if inode == "" {
		inode = listenInode("/proc/net/tcp6", port)
	}
	if inode == "" {
		return ""
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == "socket:["+inode+"]" {
			pid := strings.Split(link, "/")[2]
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			return fmt.Sprintf(" by %s (pid %s)", strings.TrimSpace(string(name)), pid)
		}
	}
	return ""
}

// listenInode finds the socket that listens on port in a table of the kernel
// (proc(5), /proc/net/tcp: field 2 is address:port in hex, field 4 is the state,
// 0A for listening, field 10 the inode).
func listenInode(table string, port int) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close()
	want := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if c := strings.Fields(lines.Text()); len(c) > 9 && strings.HasSuffix(c[1], want) && c[3] == "0A" {
			return c[9]
		}
	}
	return ""
}
