package gate

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// visitor is what the secrets of a request say of who sent it.
type visitor int

const (
	unknown  visitor = iota // knows none
	newcomer                // a browser that brings a token, and gets a cookie for it
	known                   // has a cookie or a token
)

// keys are the secrets that open a gate. A token is printed as part of an address.
// The first use decides what it is: a browser trades it for a cookie, after which
// the token opens nothing, as addresses are seen in histories and lists of processes;
// a program, which asks for no page, keeps it. Kept are hashes, looked up by
// what a request brings, so the time it takes says nothing of a secret.
type keys struct {
	mu      sync.Mutex
	token   string                        // printed, and not used yet
	admits  map[[sha256.Size]byte]visitor // by token: who presents it, unknown if a browser has used it
	cookies map[[sha256.Size]byte]bool
	used    func(token string)
}

func newKeys(used func(token string)) *keys {
	k := &keys{admits: map[[sha256.Size]byte]visitor{}, cookies: map[[sha256.Size]byte]bool{}, used: used}
	k.renew()
	return k
}

// renew makes the next token.
func (k *keys) renew() {
	k.token = newToken()
	k.admits[sha256.Sum256([]byte(k.token))] = newcomer
}

// next is the token that is not used yet.
func (k *keys) next() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.token
}

// check says who sent a request. A token that is brought for the first time is then
// used, and there is a new one.
func (k *keys) check(r *http.Request, cookie string) visitor {
	k.mu.Lock()
	var presented string
	who := k.who(r, cookie, &presented)
	k.mu.Unlock()
	if presented != "" {
		k.used(presented)
	}
	return who
}

func (k *keys) who(r *http.Request, cookie string, presented *string) visitor {
	for _, c := range r.CookiesNamed(cookie) {
		if k.cookies[sha256.Sum256([]byte(c.Value))] {
			return known
		}
	}
	token := tokenOf(r)
	hash := sha256.Sum256([]byte(token))
	is := k.admits[hash]
	if is == unknown {
		return unknown
	}
	browser := wantsPage(r)
	if browser {
		k.admits[hash] = unknown
	} else {
		k.admits[hash] = known
	}
	if is == newcomer {
		k.renew()
		*presented = k.token
	}
	if browser {
		return newcomer
	}
	return known
}

// wantsPage reports whether a request is that of a browser for a page.
func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// admit makes a cookie for a browser.
func (k *keys) admit() string {
	value := newToken()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cookies[sha256.Sum256([]byte(value))] = true
	return value
}

// ours reports whether a token is of this gate, used or not.
func (k *keys) ours(token string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.admits[sha256.Sum256([]byte(token))]
	return ok
}

// strip takes the gate's secrets out of a request, so the notebook does not see
// them. A token of the notebook's own stays.
func (k *keys) strip(r *http.Request, cookie string) {
	if k.ours(headerToken(r)) {
		r.Header.Del("Authorization")
	}
	if k.ours(r.URL.Query().Get("token")) {
		r.URL = without(r.URL)
	}
	for i, line := range r.Header["Cookie"] { // as text: not every server's cookies are as net/http writes them
		kept := slices.DeleteFunc(strings.Split(line, ";"), func(c string) bool {
			name, _, _ := strings.Cut(strings.TrimSpace(c), "=")
			return name == cookie
		})
		r.Header["Cookie"][i] = strings.TrimSpace(strings.Join(kept, ";"))
	}
	r.Header["Cookie"] = slices.DeleteFunc(r.Header["Cookie"], func(line string) bool { return line == "" })
	if len(r.Header["Cookie"]) == 0 {
		r.Header.Del("Cookie")
	}
}

// tokenOf is the token that a request brings, as clients of Jupyter send it: in the
// header, or in the address.
func tokenOf(r *http.Request) string {
	if t := headerToken(r); t != "" {
		return t
	}
	return r.URL.Query().Get("token")
}

func headerToken(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "token") || strings.EqualFold(kind, "bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

// without is an address without the token in it.
func without(u *url.URL) *url.URL {
	out := *u
	q := out.Query()
	q.Del("token")
	out.RawQuery = q.Encode()
	return &out
}

// cookieName has the port in it: browsers send the cookies of one port to all.
func cookieName(port int) string { return "berth-notebook-" + strconv.Itoa(port) }
