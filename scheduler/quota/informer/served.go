package informer

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// An API server that does not serve a resource, or does not let it be read, is asked again after a quarter of the time
// for which it has been asked, within these bounds: in a new cluster definitions come seconds after the scheduler, and until it
// has seen Queues it counts no quota.
const (
	askAgain  = 100 * time.Millisecond
	askSeldom = 30 * time.Second
)

// pause returns how long to wait until the API server is asked again that was first asked then.
func pause(began time.Time) time.Duration {
	return min(max(time.Since(began)/4, askAgain), askSeldom)
}

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
	for began := time.Now(); ; {
		if resource, ok = Served(ctx, client, resources...); ok {
			return resource, true
		}
		select {
		case <-ctx.Done():
			return resource, false
		case <-time.After(pause(began)):
		}
	}
}
