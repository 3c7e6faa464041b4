package fetch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"berth.dev/berth/core/serving"
)

// readOnly is the right that is asked for.
const readOnly = "https://www.googleapis.com/auth/devstorage.read_only"

// googleStorage is an object, or a folder of objects, in a bucket of Google Cloud Storage, by its JSON API.
type googleStorage struct {
	client *http.Client
	place  serving.Place
	at     string
	tokens oauth2.TokenSource // nil is that there are no credentials
}

// googleSource reads gs://BUCKET/PATH with the credentials of GOOGLE_APPLICATION_CREDENTIALS, of the node or its ServiceAccount on Google Cloud, or without any.
func googleSource(p serving.Place, o *Options) (source, error) {
	c, err := client(o)
	if err != nil {
		return nil, err
	}
	g := &googleStorage{client: c, place: p, at: "https://storage.googleapis.com"}
	if own := o.Getenv("STORAGE_EMULATOR_HOST"); own != "" {
		if g.at = strings.TrimRight(own, "/"); !strings.Contains(own, "://") {
			g.at = "http://" + g.at
		}
		return g, nil
	}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, c)
	name := o.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	if name == "" {
		if t, err := (nodeTokens{}).Token(); err == nil {
			g.tokens = oauth2.ReuseTokenSource(t, nodeTokens{})
		}
		return g, nil
	}
	raw, err := os.ReadFile(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("read the credentials that GOOGLE_APPLICATION_CREDENTIALS names: %w", err)
	}
	var key struct {
		Type         string `json:"type"`
		Email        string `json:"client_email"`   //nolint:tagliatelle // Google's
		PrivateKey   string `json:"private_key"`    //nolint:tagliatelle // Google's
		PrivateKeyID string `json:"private_key_id"` //nolint:tagliatelle // Google's
		TokenURL     string `json:"token_uri"`      //nolint:tagliatelle // Google's
	}
	if err := json.Unmarshal(raw, &key); err != nil || key.Type != "service_account" || key.PrivateKey == "" {
		return nil, fmt.Errorf("GOOGLE_APPLICATION_CREDENTIALS: %s is not the key of a service account, in JSON", name)
	}
	config := jwt.Config{Email: key.Email, PrivateKey: []byte(key.PrivateKey), PrivateKeyID: key.PrivateKeyID, Scopes: []string{readOnly}, TokenURL: cmp.Or(key.TokenURL, "https://oauth2.googleapis.com/token")}
	g.tokens = config.TokenSource(ctx)
	return g, nil
}

// nodeTokens are tokens of the identity that a node of Google Cloud, or the pod's ServiceAccount there, has, by its metadata server.
type nodeTokens struct{}

// Token implements oauth2.TokenSource.
func (nodeTokens) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token?scopes="+url.QueryEscape(readOnly), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Metadata-Flavor", "Google")
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	var t struct {
		Token string `json:"access_token"` //nolint:tagliatelle // Google's
		For   int64  `json:"expires_in"`   //nolint:tagliatelle // Google's
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, a.Body, readWords)).Decode(&t); err != nil || a.StatusCode != http.StatusOK || t.Token == "" {
		return nil, fmt.Errorf("the metadata server of Google Cloud answers %s", a.Status)
	}
	return &oauth2.Token{AccessToken: t.Token, Expiry: time.Now().Add(time.Duration(t.For) * time.Second)}, nil
}

// token returns a token for a request; "" is none.
func (g *googleStorage) token() (string, error) {
	if g.tokens == nil {
		return "", nil
	}
	t, err := g.tokens.Token()
	if err != nil {
		return "", &passing{error: fmt.Errorf("get a token for %s: %s; check the key of the service account", g.place.URI, reason(err))}
	}
	return t.AccessToken, nil
}

// object is what the API says of one.
type object struct {
	Name       string `json:"name"`
	Size       string `json:"size"`
	Generation string `json:"generation"`
	MD5        string `json:"md5Hash"`
	CRC32C     string `json:"crc32c"`
}

// list implements source: the object of that name, or else all below it.
func (g *googleStorage) list(ctx context.Context) ([]file, error) {
	var out []file
	for page := ""; ; {
		query := url.Values{"prefix": {g.place.Path}, "fields": {"items(name,size,generation,md5Hash,crc32c),nextPageToken"}}
		if page != "" {
			query.Set("pageToken", page)
		}
		var list struct {
			Items []object `json:"items"`
			Next  string   `json:"nextPageToken"`
		}
		token, err := g.token()
		if err != nil {
			return nil, err
		}
		if err := getJSON(ctx, g.client, g.at+"/storage/v1/b/"+url.PathEscape(g.place.Host)+"/o?"+query.Encode(), token, &list); err != nil {
			return nil, g.hint(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			name, alone, ok := under(g.place.Path, o.Name)
			if alone {
				return []file{g.file(o, name)}, nil
			}
			if ok {
				out = append(out, g.file(o, name))
			}
		}
		if page = list.Next; page == "" || len(out) > mostFiles {
			return out, nil
		}
	}
}

func (g *googleStorage) file(o *object, name string) file {
	f := file{path: name, size: -1, tag: o.Generation}
	if n, err := strconv.ParseInt(o.Size, 10, 64); err == nil {
		f.size = n
	}
	if text := fromBase64(o.MD5, 16); text != "" {
		f.sum = md5Of(text)
	} else if text := fromBase64(o.CRC32C, 4); text != "" {
		f.sum = crc32cOf(text)
	}
	address := g.at + "/storage/v1/b/" + url.PathEscape(g.place.Host) + "/o/" + url.PathEscape(o.Name) + "?alt=media&generation=" + url.QueryEscape(o.Generation)
	f.open = func(ctx context.Context, from int64, _ string) (*content, error) {
		token, err := g.token()
		if err != nil {
			return nil, err
		}
		c, err := getPinned(ctx, g.client, address, token, from, f.tag)
		return c, g.hint(err)
	}
	return f
}

// hint adds to a refusal which credentials were used.
func (g *googleStorage) hint(err error) error {
	var r *refusedError
	if g.tokens != nil || !errors.As(err, &r) || r.code != http.StatusUnauthorized && r.code != http.StatusForbidden {
		return err
	}
	return fmt.Errorf("%w. No credentials are used: add a Secret with the key gcloud-application-credentials.json to the ServiceAccount, or set GOOGLE_APPLICATION_CREDENTIALS", err)
}
