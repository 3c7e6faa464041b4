package access

import (
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// mostPasswords is how many right passwords are remembered: a hash costs 70 ms.
const mostPasswords = 64

// unknownUserHash is compared with where a user is not known, so the time of an answer
// does not tell who is: bcrypt of nothing, with the usual cost.
var unknownUserHash = sync.OnceValue(func() []byte { //nolint:gochecknoglobals // computed once, then constant
	hash, err := bcrypt.GenerateFromPassword(nil, bcrypt.DefaultCost)
	if err != nil {
		panic(err) // it fails for costs and passwords that are too long
	}
	return hash
})

// webs follows a web configuration file: it is read again when it, or a file that it
// names, has changed. One that is wrong then leaves the one before.
type webs struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	now   *web
	marks []mark
	right map[[sha256.Size]byte]bool // user, hash and password
	turn  chan struct{}              // of capacity 1: one hash at a time
}

func newWeb(path string, log *slog.Logger) (*webs, error) {
	w, err := readWebConfig(path)
	if err != nil {
		return nil, err
	}
	if w.file.Rate != nil {
		log.Warn("web configuration: rate_limit has no effect: eight scrapes at most run at once", "file", path)
	}
	return &webs{path: path, log: log, now: w, marks: w.marks(), right: map[[sha256.Size]byte]bool{}, turn: make(chan struct{}, 1)}, nil
}

func (w *web) marks() []mark {
	var out []mark
	for _, path := range w.reads {
		out = append(out, markOf(path))
	}
	return out
}

// current is the configuration as it is now.
func (f *webs) current() *web {
	f.mu.Lock()
	defer f.mu.Unlock()
	marks := f.now.marks()
	same := true
	for i, m := range marks {
		same = same && m == f.marks[i]
	}
	if same {
		return f.now
	}
	f.marks = marks // tried once, right or wrong
	next, err := readWebConfig(f.path)
	switch {
	case err != nil:
		f.log.Warn("the web configuration is unchanged", "error", err)
	case (next.tls == nil) != (f.now.tls == nil):
		f.log.Warn("the web configuration is unchanged: TLS cannot be turned on or off while the agent runs; restart it", "file", f.path)
	default:
		f.now, f.marks = next, next.marks()
		clear(f.right)
		f.log.Info("reloaded the web configuration", "file", f.path)
	}
	return f.now
}

// tls is how connections are accepted; nil is HTTP.
func (f *webs) tls() *tls.Config {
	if f.now.tls == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12, // of the connection that is used, the file's
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current().tls, nil },
	}
}

// guard sets headers, and lets those through to next who have a user's password, where
// there are users.
func (f *webs) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := f.current()
		for name, value := range c.file.HTTP.Headers {
			w.Header().Set(name, value)
		}
		if len(c.file.Users) > 0 {
			user, password, ok := r.BasicAuth()
			if !ok || !f.knows(r, c, user, password) {
				w.Header().Set("WWW-Authenticate", "Basic")
				http.Error(w, "Unauthorized", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// knows reports whether a password is a user's. Right ones are remembered; others are
// looked at one by one, so that guessing takes no more than one processor.
func (f *webs) knows(r *http.Request, c *web, user, password string) bool {
	hash, ok := c.file.Users[user]
	if !ok {
		hash = string(unknownUserHash())
	}
	key := sha256.Sum256([]byte(user + "\x00" + hash + "\x00" + password))
	f.mu.Lock()
	right := f.right[key]
	f.mu.Unlock()
	if right {
		return ok
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-r.Context().Done():
		return false
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || !ok {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.right) >= mostPasswords {
		clear(f.right)
	}
	f.right[key] = true
	return true
}
