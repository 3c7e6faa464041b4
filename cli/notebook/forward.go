package notebook

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/notebook/gate"
	"berth.dev/berth/core/explain"
)

// errRestarts ends a forwarding whose pod is replaced.
var errRestarts = errors.New("the notebook restarts")

// forward leads a gate to a pod until ctx ends, the connection is lost or the pod is
// replaced. ready is called once it does.
func (n *Notebooks) forward(ctx context.Context, to target, g *gate.Gate, ready func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dialer, err := n.dialer(to)
	if err != nil {
		return err
	}
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return fmt.Errorf("forward to pod %s/%s: %w", to.namespace, to.pod, err)
	}
	defer conn.Close()
	t := &tunnel{conn: conn, port: to.port}
	g.Connect(gate.Notebook{Dial: t.dial, Token: to.token})
	defer g.Disconnect()
	ready()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		cancel(n.untilReplaced(ctx, to))
	}()
	select {
	case <-ctx.Done():
		err = nil
	case <-conn.CloseChan():
		err = portforward.ErrLostConnectionToPod
	}
	cancel(nil)
	<-watching
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// untilReplaced waits until a pod ends or is another one. A notebook that is busy
// and misses a probe keeps its connections.
func (n *Notebooks) untilReplaced(ctx context.Context, to target) error {
	err := n.follow(ctx, to.notebook, func(nb *kubeflow.Notebook) (bool, error) {
		if State(nb) == explain.Ready {
			return false, nil
		}
		return n.replaced(ctx, to), nil
	})
	if err != nil {
		return err
	}
	return errRestarts
}

// replaced reports whether a pod ends or is another one, as far as can be read: else the
// connection tells.
func (n *Notebooks) replaced(ctx context.Context, to target) bool {
	pod, err := n.CoreV1().Pods(to.namespace).Get(ctx, to.pod, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return string(pod.UID) != to.uid || pod.DeletionTimestamp != nil
}

// dialer connects to a pod through the API server, by WebSocket, and by SPDY
// where a server or a proxy before it does not understand that.
func (n *Notebooks) dialer(to target) (httpstream.Dialer, error) {
	url := n.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.namespace).Name(to.pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(n.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", n.Name, err)
	}
	bySPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	byWebSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, n.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", n.Name, err)
	}
	return portforward.NewFallbackDialerForStreaming(byWebSocket, bySPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
