package informer

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// askAgain is after how long an API server that does not serve a resource, or does not let it
// be read, is asked again; twice as long each time, up to askSeldom.
const (
	askAgain  = 2 * time.Second
	askSeldom = 30 * time.Second
)

// ClientOf returns a client for objects of any kind; nil where there is no API server.
func ClientOf(config *rest.Config) (dynamic.Interface, error) {
	if config == nil {
		return nil, nil
	}
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "", "" // custom resources have JSON only
	return dynamic.NewForConfig(config)
}

// Served returns the first of some resources that an API server serves and lets be read. ok is false for
// none.
func Served(ctx context.Context, client dynamic.Interface, resources ...schema.GroupVersionResource) (resource schema.GroupVersionResource, ok bool) {
	for _, resource := range resources {
		if _, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return resource, true
		}
	}
	return resource, false
}

// AwaitServed is Served that asks until there is one. ok is false when ctx has ended.
func AwaitServed(ctx context.Context, client dynamic.Interface, resources ...schema.GroupVersionResource) (resource schema.GroupVersionResource, ok bool) {
	for wait := askAgain; ; wait = min(2*wait, askSeldom) {
		if resource, ok = Served(ctx, client, resources...); ok {
			return resource, true
		}
		select {
		case <-ctx.Done():
			return resource, false
		case <-time.After(wait):
		}
	}
}
