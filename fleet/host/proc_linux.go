package host

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// attributes make a process the leader of its own session and group,
// away from the terminal, and end it when this program ends in any way.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

// startTime returns when a process was started, in clock ticks since boot.
//
// Source: proc_pid_stat(5), field 22.
func startTime(pid int) (uint64, bool) {
	_, fields, ok := stat(pid)
	if !ok || len(fields) < 20 {
		return 0, false
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	return ticks, err == nil
}

// stat returns the parent of a process and the fields of its stat file from the
// third on. A process that has ended and waits for its parent is none.
func stat(pid int) (parent int, fields []string, ok bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, nil, false
	}
	// Field 2 is the program's name in brackets, which may hold blanks and brackets.
	i := bytes.LastIndexByte(raw, ')')
	if i < 0 {
		return 0, nil, false
	}
	fields = strings.Fields(string(raw[i+1:]))
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0, nil, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, fields, err == nil
}

// marked returns the processes of this user whose mark is the one given, or,
// with prefix, begins with it; and their descendants, which may have changed
// their environment. This process is never one of them.
func marked(mark string, prefix bool) []int {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	in, parents := map[int]bool{}, map[int]int{}
	var out []int
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == self {
			continue
		}
		parent, _, ok := stat(pid)
		if !ok {
			continue
		}
		parents[pid] = parent
		if carries(pid, mark, prefix) {
			in[pid] = true
			out = append(out, pid)
		}
	}
	for more := len(out) > 0; more; {
		more = false
		for pid, parent := range parents {
			if !in[pid] && in[parent] {
				in[pid], more = true, true
				out = append(out, pid)
			}
		}
	}
	return out
}

// carries reports whether a process was started with a mark. The environment
// of other users' processes cannot be read.
func carries(pid int, mark string, prefix bool) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(raw, []byte{0}) {
		if got, ok := strings.CutPrefix(string(kv), markName+"="); ok {
			return got == mark || prefix && strings.HasPrefix(got, mark)
		}
	}
	return false
}

// listeners returns the TCP addresses on which processes listen.
//
// Source: proc_pid_net(5) and Documentation/networking/proc_net_tcp.rst of the
// kernel: state 0A is LISTEN, and the inode is that of the socket's descriptor.
func listeners(pids []int) []netip.AddrPort {
	mine := map[string]bool{}
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd"
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue // it has ended
		}
		for _, fd := range fds {
			if to, err := os.Readlink(dir + "/" + fd.Name()); err == nil && strings.HasPrefix(to, "socket:[") {
				mine[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
			}
		}
	}
	if len(mine) == 0 {
		return nil
	}
	var out []netip.AddrPort
	for _, name := range []string{"tcp", "tcp6"} {
		raw, err := os.ReadFile("/proc/self/net/" + name)
		if err != nil {
			continue // no IPv6 here
		}
		out = append(out, listening(raw, mine)...)
	}
	return out
}

// listening reads a table of sockets.
func listening(table []byte, inodes map[string]bool) []netip.AddrPort {
	var out []netip.AddrPort
	for s := bufio.NewScanner(bytes.NewReader(table)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 10 || f[3] != "0A" || !inodes[f[9]] {
			continue
		}
		if a, ok := address(f[1]); ok {
			out = append(out, a)
		}
	}
	return out
}

// address reads ADDRESS:PORT in hexadecimal: the address in words of 32 bits of
// this machine's byte order, the port as a number.
func address(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a, uint16(number)), ok
}
