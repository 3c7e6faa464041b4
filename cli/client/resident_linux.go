package client

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// forgetStart releases, once, the memory of the program's own file that was read so far: two
// thirds of it only its start needs. The rest is read again from the page cache.
var forgetStart = sync.OnceFunc(func() { //nolint:gochecknoglobals // the memory is that of the process
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer func() { _ = maps.Close() }()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		var from, to uintptr
		var may string
		if n, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &may); n < 3 || err != nil {
			continue
		}
		if strings.HasSuffix(line, " "+exe) && strings.HasPrefix(may, "r-") {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) // it stays if that is refused
		}
	}
})
