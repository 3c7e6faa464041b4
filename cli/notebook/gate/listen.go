package gate

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// freeTries is how many free ports of IPv4 are tried until IPv6 has the same free.
const freeTries = 20

// listen takes a port of 127.0.0.1 and, where this machine has IPv6, of ::1: else
// another account could take that, and a browser that tries it first for localhost
// would bring its secrets there.
func listen(port int) ([]net.Listener, int, error) {
	for try := 1; ; try++ {
		v4, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, 0, fmt.Errorf("listen: %w", err)
		}
		at := v4.Addr().(*net.TCPAddr).Port
		v6, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(at)))
		if err == nil {
			return []net.Listener{v4, v6}, at, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			return []net.Listener{v4}, at, nil // there is no IPv6
		}
		if err := errors.Join(fmt.Errorf("listen: %w", err), v4.Close()); port != 0 || try == freeTries {
			return nil, 0, err
		}
	}
}
