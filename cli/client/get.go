package client

import (
	"context"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Get reads a path of the API server outside its resources, with parameters, as JSON.
func (c *Cluster) Get(ctx context.Context, path string, params map[string]string) ([]byte, error) {
	return c.call(ctx, "GET", path, params)
}

// call calls a path of the API server outside its resources, with parameters in the URL, and a header and its value if there
// are any, and returns its answer, which is JSON.
func (c *Cluster) call(ctx context.Context, verb, path string, params map[string]string, header ...string) ([]byte, error) {
	cfg := rest.CopyConfig(c.Config)
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, err
	}
	r := client.Verb(verb).AbsPath(path)
	for name, value := range params {
		r = r.Param(name, value)
	}
	if len(header) == 2 {
		r = r.SetHeader(header[0], header[1])
	}
	return r.DoRaw(ctx)
}
