package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"berth.dev/berth/activator/gate"
	"berth.dev/berth/test/soak"
)

// manyHeld is how many requests TestManyHeldRequestsTakeLittleMemory holds: each takes a
// file descriptor, and another in another process.
var manyHeld = soak.Pick(2_000, 10_000)

// heldMost is how many bytes of memory a held request may take: 10,000 take 150 MB.
const heldMost = 15_000

// TestManyHeldRequestsTakeLittleMemory holds requests of 1 KB on connections of another
// process, and looks at the memory of this one: resident, with what the runtime keeps.
func TestManyHeldRequestsTakeLittleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory too")
	}
	took := hold(t, manyHeld)
	t.Logf("%d held requests take %d MB", manyHeld, took>>20)
	if took > heldMost*manyHeld {
		t.Errorf("a held request takes %d bytes, want at most %d", took/manyHeld, heldMost)
	}
}

// BenchmarkHeld reports what 10,000 held requests take.
func BenchmarkHeld(b *testing.B) {
	for range b.N {
		b.ReportMetric(float64(hold(b, 10_000))/1e6, "MB")
	}
	b.ReportMetric(0, "ns/op")
}

// hold holds so many requests, has them answered, and returns how many bytes of memory the first took.
func hold(t testing.TB, n int) (took int) {
	r := newRig(t, gate.Limits{})
	before := resident(t)
	clients := exec.Command(os.Args[0], "-test.run=^TestClientsOfAnotherProcess$")
	clients.Env = append(os.Environ(), "BERTH_TEST_CLIENTS="+r.address, fmt.Sprint("BERTH_TEST_REQUESTS=", n))
	in, err := clients.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	clients.Stderr = os.Stderr
	out, err := clients.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = clients.Wait() }()
	defer in.Close()
	r.until("all are held", held(n))
	took = resident(t) - before
	_, at := pod(t, echo("pod"))
	r.service.SetBackends([]string{at})
	answered, _ := bufio.NewReader(out).ReadString('\n')
	if answered != fmt.Sprintln(n) {
		t.Errorf("answered: %q", answered)
	}
	return took
}

// TestClientsOfAnotherProcess is the other process.
func TestClientsOfAnotherProcess(t *testing.T) {
	address := os.Getenv("BERTH_TEST_CLIENTS")
	if address == "" {
		t.Skip("run by TestManyHeldRequestsTakeLittleMemory")
	}
	request := "POST /v1/models/iris:predict HTTP/1.1\r\nHost: iris.shop\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\nContent-Type: application/json\r\n" +
		"Content-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)
	n, err := strconv.Atoi(os.Getenv("BERTH_TEST_REQUESTS"))
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	answered := 0
	for _, c := range conns {
		var buf [15]byte
		if n, _ := c.Read(buf[:]); string(buf[:n]) == "HTTP/1.1 200 OK" {
			answered++
		}
	}
	fmt.Println(answered)
}

// resident returns the bytes of memory of this process, after a collection.
func resident(t testing.TB) int {
	runtime.GC()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(os.Getpid()), "status"))
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
