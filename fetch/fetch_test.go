package fetch_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/fetch"
)

// server is a web server with one file, whose connections break.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	name   string
	data   []byte
	tag    string
	header http.Header // of each answer
	breaks []int       // after how many bytes the next connections break; then none does
	asked  []string    // the Range of each request
	sent   int         // bytes
}

func serve(t *testing.T, name string, data []byte) *server {
	t.Helper()
	s := &server{name: name, data: data, tag: `"1"`, header: http.Header{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// settle waits until no request is being answered.
func (s *server) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// inTurn answers one request at a time.
func inTurn(h http.HandlerFunc) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		h(w, r)
	})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Header.Get("Range"))
	if r.URL.Path != "/"+s.name {
		http.Error(w, "no such model", http.StatusNotFound)
		return
	}
	maps.Copy(w.Header(), s.header)
	if s.tag != "" {
		w.Header().Set("ETag", s.tag)
	}
	most := -1
	if len(s.breaks) > 0 {
		most, s.breaks = s.breaks[0], s.breaks[1:]
	}
	http.ServeContent(&cut{w, &s.sent, most}, r, "", time.Time{}, bytes.NewReader(s.data))
}

// cut is an answer that breaks off after some bytes.
type cut struct {
	http.ResponseWriter
	sent *int
	most int
}

func (c *cut) Write(p []byte) (int, error) {
	if c.most >= 0 && len(p) > c.most {
		n, _ := c.ResponseWriter.Write(p[:c.most])
		*c.sent += n
		c.ResponseWriter.(http.Flusher).Flush()
		conn, _, err := c.ResponseWriter.(http.Hijacker).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_ = conn.(*net.TCPConn).Close()
		return n, http.ErrAbortHandler
	}
	n, err := c.ResponseWriter.Write(p)
	*c.sent += n
	if c.most >= 0 {
		c.most -= n
	}
	return n, err
}

// Flush and Hijack are not those of the answer behind: ServeContent uses neither.

// quick are options that wait for nothing.
func quick() fetch.Options {
	return fetch.Options{Getenv: func(string) string { return "" }, Pause: func(ctx context.Context, _ time.Duration) bool { return ctx.Err() == nil }}
}

// model returns what is in a folder, without the folder of the download.
func model(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == ".berth-fetch" {
				return filepath.SkipDir
			}
			return err
		}
		raw, err := os.ReadFile(path) //nolint:gosec // below the test's folder
		rel, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(rel)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestADownloadGoesOnWhereItBroke(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	s := serve(t, "model.bin", data)
	s.breaks = []int{1000, 5000, 0, 30_000}
	dir := t.TempDir()
	got, err := fetch.Fetch(t.Context(), s.URL+"/model.bin", dir, quick())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&fetch.Result{Files: []string{"model.bin"}, Bytes: int64(len(data))}, got); diff != "" {
		t.Error(diff)
	}
	if model(t, dir)["model.bin"] != string(data) {
		t.Error("the file is another one")
	}
	s.settle()
	if s.sent != len(data) {
		t.Errorf("the server has sent %d bytes for a file of %d", s.sent, len(data))
	}
	if len(s.asked) != 5 || s.asked[1] != "bytes=1000-" || s.asked[2] != "bytes=6000-" {
		t.Errorf("it asked for %q", s.asked)
	}
}

func TestAFileThatChangesMeanwhileStartsOver(t *testing.T) {
	s := serve(t, "model.bin", bytes.Repeat([]byte("old "), 10_000))
	s.breaks = []int{20_000}
	o := quick()
	o.Pause = func(context.Context, time.Duration) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.data, s.tag = bytes.Repeat([]byte("new "), 10_000), `"2"`
		return true
	}
	dir := t.TempDir()
	if _, err := fetch.Fetch(t.Context(), s.URL+"/model.bin", dir, o); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if got := model(t, dir)["model.bin"]; got != string(s.data) {
		t.Errorf("the file is a mixture: %d bytes, old %d", len(got), strings.Count(got, "old"))
	}
}

func TestAServerWithoutVersionsSendsAllOfItAgain(t *testing.T) {
	s := serve(t, "model.bin", bytes.Repeat([]byte("data"), 10_000))
	s.tag, s.breaks = "", []int{20_000}
	dir := t.TempDir()
	if _, err := fetch.Fetch(t.Context(), s.URL+"/model.bin", dir, quick()); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if model(t, dir)["model.bin"] != string(s.data) || s.asked[1] != "" {
		t.Errorf("it asked for %q", s.asked)
	}
}

func TestWhatIsThereIsNotDownloadedAgain(t *testing.T) {
	s := serve(t, "model.bin", []byte("weights"))
	dir := t.TempDir()
	for range 2 {
		if _, err := fetch.Fetch(t.Context(), s.URL+"/model.bin", dir, quick()); err != nil {
			t.Fatal(err)
		}
	}
	s.settle()
	if s.sent != len(s.data) {
		t.Errorf("the server has sent %d bytes", s.sent)
	}
	s.data, s.tag = []byte("better weights"), `"2"`
	if _, err := fetch.Fetch(t.Context(), s.URL+"/model.bin", dir, quick()); err != nil {
		t.Fatal(err)
	}
	if got := model(t, dir)["model.bin"]; got != "better weights" {
		t.Errorf("a newer version is not downloaded: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.bin"), []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch.Fetch(t.Context(), s.URL+"/model.bin", dir, quick()); err != nil {
		t.Fatal(err)
	}
	if got := model(t, dir)["model.bin"]; got != "better weights" {
		t.Errorf("a damaged file stays: %q", got)
	}
}

// TestMain is also the program that TestAKilledDownloadGoesOn kills.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "fetch" {
		_, err := fetch.Fetch(context.Background(), os.Args[2], os.Args[3], fetch.Options{})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestAKilledDownloadGoesOn(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	const half = 800_000
	var mu sync.Mutex
	var asked []string
	waits, end := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Header.Get("Range"))
		first := len(asked) == 1
		mu.Unlock()
		w.Header().Set("ETag", `"1"`)
		if !first {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:half])
		w.(http.Flusher).Flush()
		waits <- struct{}{}
		<-end
	}))
	defer s.Close()
	defer close(end)
	dir := t.TempDir()
	program := exec.Command(os.Args[0], "fetch", s.URL+"/model.bin", dir) //nolint:gosec // this test
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	<-waits
	part := ""
	for part == "" { // until something of it is on the disk
		found, _ := filepath.Glob(filepath.Join(dir, ".berth-fetch", "*.part"))
		for _, name := range found {
			if info, err := os.Stat(name); err == nil && info.Size() > 0 {
				part = name
			}
		}
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait()
	if got := model(t, dir); len(got) != 0 {
		t.Errorf("a part has a name of the model: %d files", len(got))
	}
	got, err := fetch.Fetch(t.Context(), s.URL+"/model.bin", dir, quick())
	if err != nil {
		t.Fatal(err)
	}
	if model(t, dir)["model.bin"] != string(data) || got.Bytes != int64(len(data)) {
		t.Errorf("the file is another one: %+v", got)
	}
	if len(asked) != 2 || !strings.HasPrefix(asked[1], "bytes=") || asked[1] == "bytes=0-" {
		t.Errorf("it did not go on: %q", asked)
	}
}

// packed are the bytes of an archive.
func packed(t *testing.T, kind string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	if kind == "zip" {
		w := zip.NewWriter(&out)
		for name, text := range files {
			f, err := w.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.Write([]byte(text))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var to interface {
		Write([]byte) (int, error)
	} = &out
	var z *gzip.Writer
	if kind == "tar.gz" {
		z = gzip.NewWriter(&out)
		to = z
	}
	w := tar.NewWriter(to)
	for name, text := range files {
		h := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if target, is := strings.CutPrefix(text, "-> "); is {
			h.Typeflag, h.Linkname, h.Size, text = tar.TypeSymlink, target, 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(text))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if z != nil {
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestAnArchiveIsUnpacked(t *testing.T) {
	for _, kind := range []string{"tar", "tar.gz", "zip"} {
		t.Run(kind, func(t *testing.T) {
			s := serve(t, "m."+kind, packed(t, kind, map[string]string{"./1/saved_model.pb": "graph", "1/variables/a": "b"}))
			dir := t.TempDir()
			for range 2 {
				got, err := fetch.Fetch(t.Context(), s.URL+"/m."+kind, dir, quick())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{"1/saved_model.pb", "1/variables/a"}, got.Files); diff != "" {
					t.Error(diff)
				}
			}
			if diff := cmp.Diff(map[string]string{"1/saved_model.pb": "graph", "1/variables/a": "b"}, model(t, dir)); diff != "" {
				t.Error(diff)
			}
			s.settle()
			if s.sent != len(s.data) {
				t.Errorf("the archive was downloaded again: %d bytes of %d", s.sent, len(s.data))
			}
			info, err := os.Stat(filepath.Join(dir, "1", "saved_model.pb"))
			if err != nil || info.Mode().Perm()&0o444 != 0o444 {
				t.Errorf("a server under another user cannot read it: %v %v", info.Mode(), err)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	right := sha256.Sum256([]byte("other"))
	for _, tt := range []struct {
		name, file string
		data       []byte
		header     http.Header
		most       int64
		says       string
	}{
		{"a file that is not there", "other.bin", nil, nil, 0, "/model.bin: the server says 404 Not Found: no such model; correct the address"},
		{"a web page instead of the file", "model.bin", []byte("<html>Sign in"), http.Header{"Content-Type": {"text/html"}}, 0, "the server sends a web page"},
		{"a checksum that is another one", "model.bin", []byte("weights"), http.Header{"Repr-Digest": {"sha-256=:" + base64.StdEncoding.EncodeToString(right[:]) + ":"}}, 0, "the checksum is wrong: its SHA-256 is "},
		{"a file over the bound", "model.bin", []byte("weights"), nil, 3, "has more than 3 B"},
		{"an archive that is none", "model.tar.gz", []byte("weights"), nil, 0, "unpack model.tar.gz: the archive is not a gzip file"},
		{"an archive that leads out of the folder", "model.tar", packed(t, "tar", map[string]string{"../evil": "x"}), nil, 0, "would be outside of the model's folder"},
		{"a zip file that leads out of the folder", "model.zip", packed(t, "zip", map[string]string{"a/../../evil": "x"}), nil, 0, "would be outside of the model's folder"},
		{"a name that begins at the root", "model.tar", packed(t, "tar", map[string]string{"/etc/evil": "x"}), nil, 0, "would be outside of the model's folder"},
		{"a link", "model.tar", packed(t, "tar", map[string]string{"a": "-> /etc"}), nil, 0, `"a" is a link or a device`},
		{"the folder of downloads", "model.tar", packed(t, "tar", map[string]string{".berth-fetch/done": "x"}), nil, 0, "the name of the folder that downloads use"},
		{"an archive with more in it than the bound", "model.tar.gz", packed(t, "tar.gz", map[string]string{"a": strings.Repeat("0", 1<<20)}), nil, 1 << 19, "the archive has more than 512.0 KiB in it"},
		{"an empty archive", "model.tar", packed(t, "tar", nil), nil, 0, "the archive has no files"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.file, tt.data)
			if tt.header != nil {
				s.header = tt.header
			}
			ask, o, dir := tt.file, quick(), t.TempDir()
			if ask == "other.bin" {
				ask = "model.bin"
			}
			o.MostBytes = tt.most
			_, err := fetch.Fetch(t.Context(), s.URL+"/"+ask+"?signature=secret", dir, o)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("it says %v, want %q", err, tt.says)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the message has lines, or a secret: %v", err)
			}
			if got := model(t, dir); len(got) != 0 {
				t.Errorf("the folder has %v", got)
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsAskedSeveralTimes(t *testing.T) {
	n := 0
	s := httptest.NewServer(inTurn(func(w http.ResponseWriter, _ *http.Request) {
		n++
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}))
	_, err := fetch.Fetch(t.Context(), s.URL+"/m", t.TempDir(), quick())
	s.Close()
	if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: busy (5 tries)") || n != 5 {
		t.Errorf("after %d requests: %v", n, err)
	}
}

func TestALinkInTheFolderLeadsNowhere(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "1")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "m.tar", packed(t, "tar", map[string]string{"1/evil": "x"}))
	if _, err := fetch.Fetch(t.Context(), s.URL+"/m.tar", dir, quick()); err == nil {
		t.Error("it writes through a link")
	}
	if got := model(t, outside); len(got) != 0 {
		t.Errorf("outside there is %v", got)
	}
}

// FuzzArchive has archives with any names: whatever they are, nothing is outside of the folder, and no file of the model is half there.
func FuzzArchive(f *testing.F) {
	for _, name := range []string{"a", "a/b", "../a", "/a", "a/../../b", "./.berth-fetch/x", "a//b", "..", "", "a\\..\\b", "1/./2"} {
		f.Add(name, "b/"+name, true)
	}
	f.Fuzz(func(t *testing.T, first, second string, zipped bool) {
		var out bytes.Buffer
		files := map[string]string{first: "1", second: "2"}
		name := "m.tar"
		if zipped {
			name = "m.zip"
			w := zip.NewWriter(&out)
			for n, text := range files {
				if e, err := w.Create(n); err == nil {
					_, _ = e.Write([]byte(text))
				}
			}
			_ = w.Close()
		} else {
			w := tar.NewWriter(&out)
			for n, text := range files {
				if w.WriteHeader(&tar.Header{Name: n, Size: 1, Mode: 0o777, Typeflag: tar.TypeReg}) == nil {
					_, _ = w.Write([]byte(text))
				}
			}
			_ = w.Close()
		}
		above := t.TempDir()
		dir := filepath.Join(above, "model")
		o := quick()
		o.Transport = answer(out.Bytes())
		_, err := fetch.Fetch(t.Context(), "http://host/"+name, dir, o)
		for path, text := range model(t, above) {
			if !strings.HasPrefix(path, "model/") || err == nil && text != "1" && text != "2" {
				t.Errorf("there is %q: %q (%v)", path, text, err)
			}
		}
	})
}

// answer is a server without a network.
type answer []byte

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", fmt.Sprint(len(a)))
	_, _ = w.Write(a)
	out := w.Result()
	out.Request = r
	return out, nil
}
