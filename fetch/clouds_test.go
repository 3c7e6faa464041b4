package fetch_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // what S3 says
	"crypto/sha1" //nolint:gosec // what git says
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/fetch"
)

// bucket is a server of S3 with one bucket. It checks signatures as AWS describes them (version 4), and breaks off the first answer for
// each name in breaks.
type bucket struct {
	mu      sync.Mutex
	objects map[string]string
	secret  string // "" is that everybody may read
	breaks  map[string]int
	wrong   bool // ETags are those of other content
	ranges  []string
}

func hmacOf(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// signed reports whether a request has the signature of the secret.
func (b *bucket) signed(r *http.Request) bool {
	fields := map[string]string{}
	for f := range strings.SplitSeq(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 "), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(f), "=")
		fields[key] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	if len(scope) != 5 {
		return false
	}
	var headers strings.Builder
	for name := range strings.SplitSeq(fields["SignedHeaders"], ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, value)
	}
	query := strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20")
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), query, headers.String(), fields["SignedHeaders"], r.Header.Get("X-Amz-Content-Sha256")}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), strings.Join(scope[1:], "/"), hex.EncodeToString(sum[:])}, "\n")
	key := []byte("AWS4" + b.secret)
	for _, part := range scope[1:] {
		key = hmacOf(key, part)
	}
	return hex.EncodeToString(hmacOf(key, text)) == fields["Signature"]
}

// settle waits until no request is being answered.
func (b *bucket) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	refuse := func(code int, name, message string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(code)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", name, message)
	}
	key, inside := strings.CutPrefix(r.URL.Path, "/models/")
	switch {
	case b.secret != "" && !b.signed(r):
		refuse(http.StatusForbidden, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
	case !inside:
		refuse(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	case key == "":
		b.list(w, r.URL.Query())
	default:
		text, ok := b.objects[key]
		if !ok {
			refuse(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
			return
		}
		b.ranges = append(b.ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", `"`+b.tag(text)+`"`)
		most, breaks := b.breaks[key]
		if !breaks {
			most = -1
		}
		delete(b.breaks, key)
		sent := 0
		http.ServeContent(&cut{w, &sent, most}, r, "", time.Unix(1, 0), strings.NewReader(text))
	}
}

func (b *bucket) tag(text string) string {
	if b.wrong {
		text += "!"
	}
	sum := md5.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// list answers ListObjectsV2, two objects a page.
func (b *bucket) list(w http.ResponseWriter, q url.Values) {
	var keys []string
	for key := range b.objects {
		if strings.HasPrefix(key, q.Get("prefix")) && key > q.Get("continuation-token") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	more := len(keys) > 2
	keys = keys[:min(2, len(keys))]
	fmt.Fprintf(w, "<ListBucketResult><Name>models</Name><IsTruncated>%v</IsTruncated>", more)
	if more {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", keys[1])
	}
	for _, key := range keys {
		fmt.Fprintf(w, `<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"%s"</ETag><Size>%d</Size></Contents>`, key, b.tag(b.objects[key]), len(b.objects[key]))
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// with are options with these variables.
func with(env map[string]string) fetch.Options {
	o := quick()
	o.Getenv = func(name string) string { return env[name] }
	return o
}

func TestModelsInS3(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 10_000)
	objects := map[string]string{"iris/1/model.joblib": large, "iris/1/a b.txt": "x", "iris/": "", "iris-2/other": "y", "one.bin": "z", "m.tar": string(packed(t, "tar", map[string]string{"1/saved_model.pb": "graph"}))}
	for _, tt := range []struct {
		name, src, secret string
		env               map[string]string
		change            func(*bucket)
		want              map[string]string
		says              string
	}{
		{name: "a folder, in pages", src: "s3://models/iris", want: map[string]string{"1/model.joblib": large, "1/a b.txt": "x"}},
		{name: "a folder with a slash at its end", src: "s3://models/iris/", want: map[string]string{"1/model.joblib": large, "1/a b.txt": "x"}},
		{name: "one object", src: "s3://models/one.bin", want: map[string]string{"one.bin": "z"}},
		{name: "an archive", src: "s3://models/m.tar", want: map[string]string{"1/saved_model.pb": "graph"}},
		{name: "credentials", src: "s3://models/iris", secret: "key", env: map[string]string{"AWS_ACCESS_KEY_ID": "ada", "AWS_SECRET_ACCESS_KEY": "key", "AWS_DEFAULT_REGION": "eu-central-1"}, want: map[string]string{"1/model.joblib": large, "1/a b.txt": "x"}},
		{name: "wrong credentials", src: "s3://models/iris", secret: "key", env: map[string]string{"AWS_ACCESS_KEY_ID": "ada", "AWS_SECRET_ACCESS_KEY": "no"}, says: "list s3://models/iris: the server says 403 SignatureDoesNotMatch: The request signature we calculated does not match the signature you provided; check the credentials in AWS_ACCESS_KEY_ID"},
		{name: "no credentials", src: "s3://models/iris", secret: "key", says: "AWS_ACCESS_KEY_ID is not set; add a Secret with the credentials to the ServiceAccount"},
		{name: "no such bucket", src: "s3://nothing/iris", says: "the server says 404 NoSuchBucket: The specified bucket does not exist; correct the bucket's name"},
		{name: "an empty folder", src: "s3://models/none", says: "s3://models/none has no files; correct the path"},
		{name: "a connection that breaks", src: "s3://models/iris", change: func(b *bucket) { b.breaks = map[string]int{"iris/1/model.joblib": 70_000} }, want: map[string]string{"1/model.joblib": large, "1/a b.txt": "x"}},
		{name: "content that is not what its ETag says", src: "s3://models/one.bin", change: func(b *bucket) { b.wrong = true }, says: "download one.bin: the checksum is wrong: its MD5 is "},
		{name: "a name that leads out of the folder", src: "s3://models", change: func(b *bucket) { b.objects = map[string]string{"../evil": "x"} }, says: `file "../evil" would be outside of the model's folder`},
		{name: "a file that is a folder too", src: "s3://models/x", change: func(b *bucket) { b.objects = map[string]string{"x/a": "1", "x/a/b": "2"} }, says: "of the model"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bucket{objects: objects, secret: tt.secret}
			if tt.change != nil {
				tt.change(b)
			}
			s := httptest.NewServer(b)
			defer s.Close()
			env := map[string]string{"AWS_ENDPOINT_URL": s.URL}
			maps.Copy(env, tt.env)
			dir := t.TempDir()
			_, err := fetch.Fetch(t.Context(), tt.src, dir, with(env))
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("it says %v, want %q", err, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, model(t, dir)); diff != "" {
				t.Error(diff)
			}
			b.settle()
			if tt.change != nil && !slices.Contains(b.ranges, "bytes=70000-") {
				t.Errorf("it did not go on: %q", b.ranges)
			}
			asked := len(b.ranges)
			if _, err := fetch.Fetch(t.Context(), tt.src, dir, with(env)); err != nil || len(b.ranges) != asked {
				t.Errorf("a second time: %v, %d more objects", err, len(b.ranges)-asked)
			}
		})
	}
}

// TestAnObjectThatIsGoneIsRemoved has a folder of which an object was removed and another one changed between two downloads.
func TestAnObjectThatIsGoneIsRemoved(t *testing.T) {
	b := &bucket{objects: map[string]string{"m/a": "1", "m/b": "2", "m/c": "3"}}
	s := httptest.NewServer(b)
	defer s.Close()
	dir, o := t.TempDir(), with(map[string]string{"AWS_ENDPOINT_URL": s.URL})
	if _, err := fetch.Fetch(t.Context(), "s3://models/m", dir, o); err != nil {
		t.Fatal(err)
	}
	b.objects = map[string]string{"m/a": "1", "m/b": "changed"}
	got, err := fetch.Fetch(t.Context(), "s3://models/m", dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "changed"}, model(t, dir)); diff != "" || got.Kept != 1 {
		t.Errorf("kept %d: %s", got.Kept, diff)
	}
}

func TestModelsOfHuggingFace(t *testing.T) {
	const commit = "0123456789012345678901234567890123456789"
	weights, config := strings.Repeat("weights ", 20_000), `{"model_type": "bert"}`
	sum := sha256.Sum256([]byte(weights))
	blob := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(config), config)) //nolint:gosec // see above
	var ranges []string
	breaks := 50_000
	s := httptest.NewServer(inTurn(func(w http.ResponseWriter, r *http.Request) {
		switch gated := strings.Contains(r.URL.Path, "gated") && r.Header.Get("Authorization") != "Bearer token"; {
		case gated:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"Access to model a/gated is restricted."}`)
		case strings.HasPrefix(r.URL.Path, "/api/models/a/") && (strings.HasSuffix(r.URL.Path, "/revision/main") || strings.HasSuffix(r.URL.Path, "/revision/v1")):
			_ = json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": []any{
				map[string]any{"rfilename": "config.json", "size": len(config), "blobId": hex.EncodeToString(blob[:])},
				map[string]any{"rfilename": "onnx/model.bin", "size": len(weights), "blobId": commit, "lfs": map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(weights)}},
			}})
		case strings.HasSuffix(r.URL.Path, "/resolve/"+commit+"/config.json"):
			fmt.Fprint(w, config)
		case strings.HasSuffix(r.URL.Path, "/resolve/"+commit+"/onnx/model.bin"):
			http.Redirect(w, r, "/cdn", http.StatusFound)
		case r.URL.Path == "/cdn":
			ranges = append(ranges, r.Header.Get("Range"))
			sent := 0
			http.ServeContent(&cut{w, &sent, breaks}, r, "", time.Time{}, strings.NewReader(weights))
			breaks = -1
		default:
			http.Error(w, `{"error":"Repository not found"}`, http.StatusNotFound)
		}
	}))
	defer s.Close()
	for _, tt := range []struct{ name, src, token, says string }{
		{"a repository", "hf://a/b", "", ""},
		{"a tag", "hf://a/b:v1", "", ""},
		{"a tag with an at sign", "hf://a/b@v1", "", ""},
		{"a revision that is not there", "hf://a/b:v2", "", `the server says 404 Not Found: {"error":"Repository not found"}; correct the address`},
		{"a model with terms", "hf://a/gated", "", "Access to model a/gated is restricted."},
		{"a model with terms, and a token", "hf://a/gated", "token", ""},
		{"a token that may not read", "hf://a/gated", "other", "accept the terms of the model at http://127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := fetch.Fetch(t.Context(), tt.src, dir, with(map[string]string{"HF_ENDPOINT": s.URL, "HF_TOKEN": tt.token}))
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("it says %v, want %q", err, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"config.json": config, "onnx/model.bin": weights}, model(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
	s.Close()
	if len(ranges) < 2 || ranges[1] != "bytes=50000-" {
		t.Errorf("it did not go on: %q", ranges)
	}
}

func TestModelsInGoogleCloudStorage(t *testing.T) {
	text := strings.Repeat("graph ", 20_000)
	sum := md5.Sum([]byte(text)) //nolint:gosec // see above
	var asked []string
	breaks := 30_000
	s := httptest.NewServer(inTurn(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/storage/v1/b/models/o" && r.URL.Query().Get("pageToken") == "":
			_ = json.NewEncoder(w).Encode(map[string]any{"nextPageToken": "2", "items": []any{
				map[string]any{"name": "m/1/saved_model.pb", "size": fmt.Sprint(len(text)), "generation": "7", "md5Hash": base64.StdEncoding.EncodeToString(sum[:])},
			}})
		case r.URL.Path == "/storage/v1/b/models/o":
			_ = json.NewEncoder(w).Encode(map[string]any{"items": []any{
				map[string]any{"name": "m/1/x", "size": "5", "generation": "8", "crc32c": "mnG7TA=="}, // of "hello"
				map[string]any{"name": "m2/x", "size": "5", "generation": "8"},
			}})
		case r.URL.EscapedPath() == "/storage/v1/b/models/o/m%2F1%2Fsaved_model.pb" && r.URL.RawQuery == "alt=media&generation=7":
			asked = append(asked, r.Header.Get("Range"))
			sent := 0
			http.ServeContent(&cut{w, &sent, breaks}, r, "", time.Time{}, strings.NewReader(text))
			breaks = -1
		case r.URL.EscapedPath() == "/storage/v1/b/models/o/m%2F1%2Fx":
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte("hello")))
		default:
			http.Error(w, "The specified bucket does not exist.", http.StatusNotFound)
		}
	}))
	defer s.Close()
	env := map[string]string{"STORAGE_EMULATOR_HOST": s.URL}
	dir := t.TempDir()
	if _, err := fetch.Fetch(t.Context(), "gs://models/m", dir, with(env)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"1/saved_model.pb": text, "1/x": "hello"}, model(t, dir)); diff != "" {
		t.Error(diff)
	}
	_, err := fetch.Fetch(t.Context(), "gs://other/m", t.TempDir(), with(env))
	s.Close()
	if len(asked) != 2 || asked[1] != "bytes=30000-" {
		t.Errorf("it did not go on: %q", asked)
	}
	if err == nil || !strings.Contains(err.Error(), "404 Not Found: The specified bucket does not exist.; correct the address") {
		t.Errorf("it says %v", err)
	}
}

// TestADownloadEndsWithItsContext has what a pod that is deleted does.
func TestADownloadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("1"))
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	if _, err := fetch.Fetch(ctx, s.URL+"/m", t.TempDir(), quick()); err == nil {
		t.Error("it succeeds")
	}
}
