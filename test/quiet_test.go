package test

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Each run of a command takes 0.2 to 0.3 s of CPU, and most commands ask what the API server
// has. So a command runs again when something is written there, and otherwise every
// unasked: files, logs, metrics, and ages change without it.
const (
	glance  = 100 * time.Millisecond
	unasked = 2 * time.Second
)

// question is a command that a script asks until its answer is right.
type question struct {
	ts    *testscript.TestScript
	from  time.Time
	store string // the revision of the API server's store when it was asked
}

// ask begins one try.
func ask(ts *testscript.TestScript) question {
	return question{ts, time.Now(), revision(ts)}
}

// pause waits until the question is worth asking again. Asking takes the time of
// others: no more than a quarter of what passes.
func (q question) pause() {
	time.Sleep(min(time.Second, max(glance, 3*time.Since(q.from))))
	for q.store != "" && time.Since(q.from) < unasked && revision(q.ts) == q.store {
		time.Sleep(glance)
	}
}

// revision is that of the store of the API server that a script talks to; "" is not known.
func revision(ts *testscript.TestScript) string {
	client := clientOf(ts.Getenv("KUBECONFIG"))
	if client == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), unasked)
	defer cancel()
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return ""
	}
	return list.ResourceVersion
}

// clients are those made for kubeconfig files, by path; a file that is written again, as a
// control plane that is started again does, has a new one.
var clients = struct {
	sync.Mutex
	of map[string]fileClient
}{of: map[string]fileClient{}}

type fileClient struct {
	written time.Time
	client  *kubernetes.Clientset
}

// clientOf is a client for a kubeconfig file; nil is that there is none.
func clientOf(path string) *kubernetes.Clientset {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	clients.Lock()
	defer clients.Unlock()
	if c := clients.of[path]; c.written.Equal(info.ModTime()) {
		return c.client
	}
	delete(clients.of, path)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil
	}
	clients.of[path] = fileClient{info.ModTime(), client}
	return client
}
