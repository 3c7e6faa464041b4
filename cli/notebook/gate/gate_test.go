package gate_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"berth.dev/berth/cli/notebook/gate"
)

// door is a gate before a notebook that says what it was asked.
type door struct {
	*gate.Gate
	t    *testing.T
	used chan string // addresses that follow used ones
}

// newDoor opens a gate; the notebook behind it wants token.
func newDoor(t *testing.T, token string) *door {
	t.Helper()
	notebook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if r.Header.Get("Upgrade") != "" {
			conn, buffer, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			line, _ := buffer.ReadString('\n')
			fmt.Fprint(conn, "echo "+line)
			return
		}
		fmt.Fprintf(w, "%s %s host=%s auth=%q cookie=%q", r.Method, r.URL, r.Host, r.Header.Get("Authorization"), r.Header.Get("Cookie"))
	}))
	t.Cleanup(notebook.Close)
	d := &door{t: t, used: make(chan string, 10)}
	g, err := gate.Open(0, "/notebook/ns/ada/", func(url string) { d.used <- url })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	g.Connect(gate.Notebook{Token: token, Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", notebook.Listener.Addr().String())
	}})
	d.Gate = g
	return d
}

// at is an address of the gate.
func (d *door) at(path string) string { return fmt.Sprintf("http://localhost:%d%s", d.Port(), path) }

// token is that of the address to open.
func (d *door) token() string {
	u, err := url.Parse(d.URL())
	if err != nil {
		d.t.Fatal(err)
	}
	return u.Query().Get("token")
}

// ask sends a request with headers, given as "Name: value", and returns status and body.
func (d *door) ask(method, address string, headers ...string) (int, string, *http.Response) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, address, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, "", resp // its body goes on
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp
}

// enter opens the address as a browser does, and returns its cookie as a header.
func (d *door) enter() string {
	d.t.Helper()
	status, body, resp := d.ask("GET", d.URL(), "Accept: text/html,*/*", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
	if status != http.StatusOK || !strings.Contains(body, `content="0;url=/notebook/ns/ada/"`) {
		d.t.Fatalf("the address answers %d %q, want a page that goes on to the notebook", status, body)
	}
	c := resp.Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Name != "berth-notebook-"+strconv.Itoa(d.Port()) {
		d.t.Fatalf("cookies %v, want one of this port that is HttpOnly and SameSite=Strict", c)
	}
	return "Cookie: " + c[0].Name + "=" + c[0].Value
}

// TestRequests sends, with a valid cookie, requests as browsers send them.
func TestRequests(t *testing.T) {
	d := newDoor(t, "")
	cookie := d.enter()
	port := strconv.Itoa(d.Port())
	const upgrade = "Upgrade: websocket"
	tests := []struct {
		name, method string
		headers      []string
		status       int
		says         string
	}{
		{"a page of its own", "GET", []string{"Sec-Fetch-Site: same-origin"}, 200, "GET /notebook/ns/ada/x"},
		{"an address that was typed", "GET", []string{"Sec-Fetch-Site: none"}, 200, ""},
		{"by the number of this machine", "GET", []string{"Host: 127.0.0.1:" + port}, 200, "host=127.0.0.1:" + port},
		{"by that of IPv6", "GET", []string{"Host: [::1]:" + port}, 200, ""},
		{"a call of its own page", "POST", []string{"Origin: http://localhost:" + port, "Sec-Fetch-Site: same-origin"}, 200, "POST"},
		{"a program's call", "DELETE", nil, 200, "DELETE"},
		{"a name that leads here", "GET", []string{"Host: evil.example:" + port}, 403, `the request is for "evil.example:` + port + `"`},
		{"a name that ends like ours", "GET", []string{"Host: localhost.evil.example:" + port}, 403, "the request is for"},
		{"another port", "GET", []string{"Host: localhost:1"}, 403, "use the same number"},
		{"no port", "GET", []string{"Host: localhost"}, 403, "use the same number"},
		{"a call of another page", "POST", []string{"Origin: https://evil.example"}, 403, `a page of "https://evil.example" cannot use this notebook`},
		{"a call of a page that hides who it is", "POST", []string{"Origin: null"}, 403, "cannot use"},
		{"a call of a page at another port", "POST", []string{"Origin: http://localhost:1"}, 403, "cannot use"},
		{"a read of another page", "GET", []string{"Origin: https://evil.example"}, 403, "cannot use"},
		{"a script of a page at another port", "GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, 403, "another origin (same-site)"},
		{"a frame in another page", "GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403, "another origin"},
		{"a form of another page", "POST", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403, "another origin"},
		{"a link on another page", "GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200, ""},
		{"a WebSocket of another page", "GET", []string{upgrade, "Connection: Upgrade", "Origin: https://evil.example"}, 403, "cannot use"},
		{"a WebSocket of another page without its name", "GET", []string{upgrade, "Connection: Upgrade", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: websocket"}, 403, "another origin"},
		{"a WebSocket of its own", "GET", []string{upgrade, "Connection: Upgrade", "Origin: http://localhost:" + port}, 101, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := *d
			d.t = t
			status, body, resp := d.ask(tt.method, d.at("/notebook/ns/ada/x"), append(tt.headers, cookie)...)
			if status != tt.status || !strings.Contains(body, tt.says) {
				t.Errorf("it answers %d %q, want %d with %q", status, body, tt.status, tt.says)
			}
			if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("it lets pages of %q read", got)
			}
		})
	}
}

// TestSecrets uses and misuses tokens and cookies.
func TestSecrets(t *testing.T) {
	d := newDoor(t, "jupyters")
	path := d.at("/notebook/ns/ada/api")
	for _, headers := range [][]string{nil, {"Cookie: berth-notebook-" + strconv.Itoa(d.Port()) + "=x"}, {"Authorization: token x"}, {"Authorization: token "}} {
		if status, body, _ := d.ask("GET", path, headers...); status != 403 || !strings.Contains(body, "open the last address that") {
			t.Errorf("with %q it answers %d %q, want 403", headers, status, body)
		}
	}
	spent := d.URL()
	cookie := d.enter()
	if next := <-d.used; next == spent || next != d.URL() {
		t.Errorf("after %s it prints %s, want the next address %s", spent, next, d.URL())
	}
	for _, accept := range []string{"text/html", "*/*"} {
		if status, _, resp := d.ask("GET", spent, "Accept: "+accept); status != 403 || len(resp.Cookies()) > 0 {
			t.Errorf("used again for %s, the address answers %d", accept, status)
		}
	}
	status, body, _ := d.ask("GET", path+"?a=b&token=own", cookie+`; _xsrf=2|x; theirs="a|b"`)
	if want := `GET /notebook/ns/ada/api?a=b&token=own host=localhost:` + strconv.Itoa(d.Port()) + ` auth="" cookie="_xsrf=2|x; theirs=\"a|b\""`; status != 200 || body != want {
		t.Errorf("with its cookie it answers %d\n%s\nwant\n%s", status, body, want)
	}
	if _, body, _ := d.ask("GET", path, cookie, "Accept: text/html"); !strings.Contains(body, `auth="token jupyters"`) {
		t.Errorf("for a page the notebook gets %s, want its token", body)
	}
	if _, body, _ := d.ask("GET", spent, cookie); strings.Contains(body, "token=") {
		t.Errorf("the notebook gets %s, with the gate's token", body)
	}
	token := d.token()
	for _, headers := range [][]string{{"Authorization: token " + token}, {"Authorization: Bearer " + token}} {
		if status, body, _ := d.ask("POST", path, headers...); status != 200 || !strings.Contains(body, `auth="token jupyters"`) {
			t.Errorf("a program with its token gets %d %q, want 200 and the notebook not to see it", status, body)
		}
	}
	if status, body, _ := d.ask("GET", path+"?token="+token+"&a=b"); status != 200 || !strings.Contains(body, "GET /notebook/ns/ada/api?a=b ") {
		t.Errorf("a program with its token in the address gets %d %q", status, body)
	}
	if d.token() == token {
		t.Error("a program's token is printed for others")
	}
}

// TestNotebookTokenOfItsOwn hands on what is the notebook's, where Berth knows none.
func TestNotebookTokenOfItsOwn(t *testing.T) {
	d := newDoor(t, "")
	if _, body, _ := d.ask("GET", d.at("/x"), d.enter(), "Authorization: token own"); !strings.Contains(body, `auth="token own"`) {
		t.Errorf("the notebook gets %s, want its own token", body)
	}
}

// TestWebSocket carries bytes both ways after an upgrade.
func TestWebSocket(t *testing.T) {
	d := newDoor(t, "")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(d.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /ws?token=%s HTTP/1.1\r\nHost: localhost:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", d.token(), d.Port())
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("it answers %v, %v", resp, err)
	}
	fmt.Fprintln(conn, "hello")
	if line, err := in.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("it says %q, %v", line, err)
	}
}

// TestNotConnected says that the notebook is not there, and then is led to the next.
func TestNotConnected(t *testing.T) {
	d := newDoor(t, "")
	cookie := d.enter()
	d.Disconnect()
	if status, body, _ := d.ask("GET", d.at("/x"), cookie); status != 503 || !strings.Contains(body, "reload the page") {
		t.Errorf("it answers %d %q", status, body)
	}
	d.Connect(gate.Notebook{Dial: func(context.Context) (net.Conn, error) { return nil, io.ErrUnexpectedEOF }})
	if status, body, _ := d.ask("GET", d.at("/x"), cookie); status != 502 || !strings.Contains(body, "the notebook does not respond: unexpected EOF") {
		t.Errorf("it answers %d %q", status, body)
	}
}

// TestPortOfIPv6 does not share localhost with another account.
func TestPortOfIPv6(t *testing.T) {
	other, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Logf("without IPv6 only 127.0.0.1 is taken: %v", err)
		return
	}
	defer other.Close()
	g, err := gate.Open(other.Addr().(*net.TCPAddr).Port, "/", nil)
	if err == nil {
		_ = g.Close()
		t.Error("the gate opens at a port of 127.0.0.1 that is another's at ::1")
	}
}
