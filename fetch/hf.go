package fetch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"berth.dev/berth/core/serving"
)

// mostList bounds the answer that lists files, in bytes.
const mostList = 64 << 20

// hub is a repository of Hugging Face.
type hub struct {
	client *http.Client
	place  serving.Place
	at     string // the server, without a slash at its end
	token  string
}

// hubSource reads hf://OWNER/NAME by the HTTP API of Hugging Face, or of a mirror in HF_ENDPOINT.
func hubSource(p serving.Place, o *Options) (source, error) {
	c, err := client(o)
	if err != nil {
		return nil, err
	}
	at := strings.TrimRight(cmp.Or(o.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/")
	return &hub{client: c, place: p, at: at, token: cmp.Or(o.Getenv("HF_TOKEN"), o.Getenv("HUGGING_FACE_HUB_TOKEN"))}, nil
}

// list implements source: the files of one commit.
func (h *hub) list(ctx context.Context) ([]file, error) {
	var repo struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
			Size *int64 `json:"size"`
			Blob string `json:"blobId"` //nolint:tagliatelle // the Hub's
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	about := h.at + "/api/models/" + h.place.Host + "/revision/" + url.PathEscape(cmp.Or(h.place.Revision, "main")) + "?blobs=true"
	if err := getJSON(ctx, h.client, about, h.token, &repo); err != nil {
		return nil, h.hint(err)
	}
	if !isHex(repo.SHA, 20) {
		return nil, fmt.Errorf("list %s: the server names no commit", h.place.URI)
	}
	var out []file
	for _, s := range repo.Siblings {
		f := file{path: s.Name, size: -1, tag: cmp.Or(s.Blob, repo.SHA)}
		if s.Size != nil {
			f.size = *s.Size
		}
		switch {
		case s.LFS != nil && isHex(s.LFS.SHA256, 32):
			f.size, f.tag, f.sum = s.LFS.Size, s.LFS.SHA256, sha256Of(s.LFS.SHA256)
		case isHex(s.Blob, 20) && f.size >= 0:
			f.sum = gitOf(s.Blob)
		}
		address, tag := h.at+"/"+h.place.Host+"/resolve/"+repo.SHA+"/"+escaped(s.Name), f.tag
		f.open = func(ctx context.Context, from int64, _ string) (*content, error) {
			c, err := getPinned(ctx, h.client, address, h.token, from, tag)
			return c, h.hint(err)
		}
		out = append(out, f)
	}
	return out, nil
}

// hint adds to a refusal how to get access.
func (h *hub) hint(err error) error {
	var r *refusedError
	if !errors.As(err, &r) || r.code != http.StatusUnauthorized && r.code != http.StatusForbidden {
		return err
	}
	if h.token == "" {
		return fmt.Errorf("%w. The repository may be private or not exist: correct its name, or set HF_TOKEN, from the key HF_TOKEN of a Secret of the ServiceAccount", err)
	}
	return fmt.Errorf("%w. The token in HF_TOKEN may not read it: accept the terms of the model at %s/%s", err, h.at, h.place.Host)
}

// escaped is a path in an address.
func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// getJSON reads an answer in JSON.
func getJSON(ctx context.Context, c *http.Client, address, token string, into any) error {
	r, err := request(ctx, address, token)
	if err != nil {
		return err
	}
	a, err := c.Do(r)
	if err != nil {
		return unreachable(r, err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return refused(r, a)
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, a.Body, mostList)).Decode(into); err != nil {
		return &passing{error: fmt.Errorf("GET %s: read the list of files: %w", bare(address), err)}
	}
	return nil
}

// getPinned opens a file at an address that names its version, from a byte on.
func getPinned(ctx context.Context, c *http.Client, address, token string, from int64, tag string) (*content, error) {
	r, err := request(ctx, address, token)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	out, err := get(c, r, max(from, 0), "")
	if err == nil {
		out.tag = tag
	}
	return out, err
}

func request(ctx context.Context, address, token string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%s is not an address: %s", bare(address), reason(err))
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, nil
}
