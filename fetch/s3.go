package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"berth.dev/berth/core/serving"
)

// amazon is the S3 of AWS.
const amazon = "https://s3.amazonaws.com"

// s3 is an object, or a folder of objects, in a bucket.
type s3 struct {
	core   minio.Core
	place  serving.Place
	signed string // which credentials there are, for errors
}

// s3Source reads s3://BUCKET/PATH with the variables of KServe's storage initializer, which are those of the AWS SDKs and a few more.
func s3Source(p serving.Place, o *Options) (source, error) {
	endpoint := cmp.Or(o.Getenv("AWS_ENDPOINT_URL_S3"), o.Getenv("AWS_ENDPOINT_URL"))
	if host := o.Getenv("S3_ENDPOINT"); endpoint == "" && host != "" {
		if endpoint = host; !strings.Contains(host, "://") {
			endpoint = "https://" + host
			if off(o.Getenv("S3_USE_HTTPS")) {
				endpoint = "http://" + host
			}
		}
	}
	own := endpoint != ""
	u, err := url.Parse(cmp.Or(endpoint, amazon))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL %q is not the address of a server; write one such as https://minio.example.com:9000", short(endpoint))
	}
	send, err := o.transport()
	if err != nil {
		return nil, err
	}
	if t, ok := send.(*http.Transport); ok && off(o.Getenv("S3_VERIFY_SSL")) {
		if t = t.Clone(); t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.TLSClientConfig.InsecureSkipVerify = true //nolint:gosec // that is what is asked for
		send = t
	}
	s := &s3{place: p}
	options := &minio.Options{Secure: u.Scheme == "https", Transport: send, Region: cmp.Or(o.Getenv("AWS_REGION"), o.Getenv("AWS_DEFAULT_REGION")), MaxRetries: 1}
	if own {
		options.BucketLookup, options.Region = minio.BucketLookupPath, cmp.Or(options.Region, "us-east-1")
	}
	if on(o.Getenv("S3_USER_VIRTUAL_BUCKET")) {
		options.BucketLookup = minio.BucketLookupDNS
	}
	options.Creds, s.signed = s3Credentials(o, own)
	c, err := minio.New(u.Host, options)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", bare(u.String()), err)
	}
	if on(o.Getenv("S3_USE_ACCELERATE")) && !own {
		c.SetS3TransferAccelerate("s3-accelerate.amazonaws.com")
	}
	s.core = minio.Core{Client: c}
	return s, nil
}

// s3Credentials returns the credentials of the environment; those of the node, or of its ServiceAccount, are asked for at AWS alone.
func s3Credentials(o *Options, own bool) (*credentials.Credentials, string) {
	key := o.Getenv("AWS_ACCESS_KEY_ID")
	switch {
	case on(o.Getenv("awsAnonymousCredential")):
		return nil, "no credentials are used (awsAnonymousCredential)"
	case key != "":
		return credentials.NewStaticV4(key, o.Getenv("AWS_SECRET_ACCESS_KEY"), o.Getenv("AWS_SESSION_TOKEN")), "check the credentials in AWS_ACCESS_KEY_ID, and that they may read this"
	case own:
		return nil, "AWS_ACCESS_KEY_ID is not set; add a Secret with the credentials to the ServiceAccount"
	}
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}}}),
		"AWS_ACCESS_KEY_ID is not set; check that the ServiceAccount or the node may read this"
}

// list implements source: the object of that name, or else all below it.
func (s *s3) list(ctx context.Context) ([]file, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var out []file
	for o := range s.core.ListObjectsIter(ctx, s.place.Host, minio.ListObjectsOptions{Prefix: s.place.Path, Recursive: true}) {
		if o.Err != nil {
			return nil, s.failed("list "+s.place.URI, o.Err)
		}
		name, alone, ok := under(s.place.Path, o.Key)
		if alone {
			return []file{s.file(&o, name)}, nil
		}
		if !ok {
			continue
		}
		if out = append(out, s.file(&o, name)); len(out) > mostFiles {
			break
		}
	}
	return out, nil
}

func (s *s3) file(o *minio.ObjectInfo, name string) file {
	key, tag := o.Key, o.ETag
	return file{path: name, size: o.Size, tag: tag, open: func(ctx context.Context, from int64, _ string) (*content, error) {
		return s.open(ctx, key, tag, from)
	}}
}

// open opens an object of a version. Its ETag is the MD5 of its content, unless it was written in parts or with a key of KMS.
func (s *s3) open(ctx context.Context, key, tag string, from int64) (*content, error) {
	var o minio.GetObjectOptions
	if from > 0 {
		if err := o.SetRange(from, 0); err != nil {
			return nil, err
		}
	}
	if tag != "" {
		if err := o.SetMatchETag(tag); err != nil {
			return nil, err
		}
	}
	body, _, header, err := s.core.GetObject(ctx, s.place.Host, key, o)
	if err != nil {
		return nil, s.failed("download s3://"+s.place.Host+"/"+key, err)
	}
	c := &content{body: body, size: -1, tag: tag}
	if text := header.Get("Content-Range"); text != "" {
		if c.from, c.size, err = rangeOf(text); err != nil {
			_ = body.Close()
			return nil, fmt.Errorf("download s3://%s/%s: %w", s.place.Host, key, err)
		}
	}
	if isHex(tag, 16) && !strings.HasPrefix(header.Get("X-Amz-Server-Side-Encryption"), "aws:kms") && header.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") == "" {
		c.sum = md5Of(tag)
	}
	return c, nil
}

// failed says what the server says, and what to do.
func (s *s3) failed(what string, err error) error {
	a := minio.ToErrorResponse(err)
	if a.StatusCode == 0 {
		return &passing{error: fmt.Errorf("%s at %s: %s", bare(what), s.core.EndpointURL().Host, reason(err))}
	}
	text := fmt.Sprintf("%s: the server says %d %s: %s", bare(what), a.StatusCode, short(a.Code), short(strings.TrimSuffix(strings.Join(strings.Fields(a.Error()), " "), ".")))
	switch {
	case a.StatusCode == http.StatusForbidden || a.StatusCode == http.StatusUnauthorized:
		text += "; " + s.signed
	case a.Code == "NoSuchBucket":
		text += "; correct the bucket's name, or its region in AWS_DEFAULT_REGION"
	case a.StatusCode == http.StatusNotFound:
		text += "; correct the path"
	case a.StatusCode == http.StatusPreconditionFailed:
		text += "; the object has changed: start the download again"
	case a.StatusCode == http.StatusTooManyRequests || a.StatusCode >= 500:
		return &passing{error: errors.New(text)}
	}
	return errors.New(text)
}

// under returns what an object of a bucket is called in the model that a path names: the object of that name, which is the first that is listed, as
// names are in order, or all below it. ok is false if it is neither, or a folder; alone is that the model is this object.
func under(at, object string) (name string, alone, ok bool) {
	below, inside := strings.CutPrefix(object, at)
	switch {
	case at != "" && object == at:
		return path.Base(object), true, true
	case !inside || at != "" && !strings.HasPrefix(below, "/") || strings.HasSuffix(object, "/"):
		return "", false, false
	}
	return strings.TrimPrefix(below, "/"), false, true
}

// on and off read a switch as KServe writes it.
func on(text string) bool  { return text == "1" || strings.EqualFold(text, "true") }
func off(text string) bool { return text == "0" || strings.EqualFold(text, "false") }
