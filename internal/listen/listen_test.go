package listen_test

import (
	"strings"
	"testing"

	"berth.dev/berth/internal/listen"
)

func TestOn(t *testing.T) {
	taken, _, err := listen.On("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name, addr  string
		plain, none bool
		says        string // of the error; "" is none
	}{
		{name: "nothing is asked for", addr: "", none: true},
		{name: "with TLS on any address", addr: ":0"},
		{name: "without TLS on this machine", addr: "http://127.0.0.1:0", plain: true},
		{name: "without TLS on its name", addr: "http://localhost:0", plain: true},
		{name: "without TLS on IPv6's loopback address or not at all", addr: "http://[::1", says: "must be a loopback address"},
		{name: "without TLS for others", addr: "http://0.0.0.0:0", says: "must be a loopback address"},
		{name: "without TLS for all", addr: "http://:0", says: "must be a loopback address"},
		{name: "an address that is taken", addr: taken.Addr().String(), says: "address already in use; choose another"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, plain, err := listen.On(tt.addr)
			if l != nil {
				defer l.Close()
			}
			switch {
			case tt.says != "":
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want one with %q", err, tt.says)
				}
			case err != nil || plain != tt.plain || (l == nil) != tt.none:
				t.Errorf("listener %v, plain %v, error %v", l, plain, err)
			}
		})
	}
}
