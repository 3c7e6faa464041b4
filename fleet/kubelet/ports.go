package kubelet

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/core/sharing"
)

// exporterPort is where a DCGM exporter serves its metrics.
const exporterPort = 9400

// PodHandler returns what answers at one port of a pod, or nil if no running
// container of it declares that port: a connection is then refused. What a
// process of this machine answers is not its business: see HostAddr.
//
// A DCGM exporter's port 9400 serves the metrics of its node's devices, and what
// plays a Jupyter server reports about its kernel, and what plays a model server answers requests for its model, once it is loaded. Every other port answers any path
// with a page that says the container is simulated, and health, readiness and
// liveness paths with "ok".
func (s *Server) PodHandler(node, namespace, pod string, port int) http.Handler {
	for _, c := range s.rt.Containers(node, namespace, pod) {
		if c.State != StateRunning || c.Hosted || !slices.Contains(c.Ports, port) {
			continue
		}
		if port == exporterPort && isExporter(c) {
			return s.exporterHandler(c)
		}
		if c.Jupyter != nil {
			return s.jupyterHandler(c, port)
		}
		if c.Model != nil {
			if !c.Model.Ready {
				continue // a server that loads its model does not listen yet
			}
			if c.Model.Calls != "" {
				return s.transformerHandler(c)
			}
			return modelHandler(c)
		}
		return pageHandler(c, port)
	}
	return nil
}

// isExporter tells a DCGM exporter by its image, its name or its labels.
func isExporter(c Container) bool {
	if strings.Contains(c.Image, "dcgm-exporter") || strings.Contains(c.Name, "dcgm-exporter") {
		return true
	}
	for _, v := range c.Labels {
		if strings.Contains(v, "dcgm-exporter") {
			return true
		}
	}
	return false
}

// exporterHandler serves /metrics and /health as NVIDIA's exporter does.
func (s *Server) exporterHandler(c Container) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metricsType)
		o := exporter.Options{Hostname: c.Node, DriverVersion: s.rt.View(c.Node, nil).Driver}
		if err := exporter.Write(w, o, s.rt.Metrics(c.Node)); err != nil {
			panic(http.ErrAbortHandler) // the client is gone
		}
	})
	mux.HandleFunc("GET /health", ok)
	mux.Handle("/", pageHandler(c, exporterPort))
	return mux
}

func ok(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

// page is what the template shows.
type page struct {
	Namespace, Pod, Container, Image, Node string
	Port                                   int
	Devices                                []string
}

var pageHTML = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{.Pod}}: simulated by Berth</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:4em auto;padding:0 1em}dt{font-weight:600}</style>
<h1>This container is simulated</h1>
<p>Berth answers in its place. The image is not run, so what it would serve here is not there.</p>
<dl>
<dt>Pod</dt><dd>{{.Namespace}}/{{.Pod}}</dd>
<dt>Container</dt><dd>{{.Container}} ({{.Image}}), port {{.Port}}</dd>
<dt>Node</dt><dd>{{.Node}}</dd>
<dt>Devices</dt>{{range .Devices}}<dd>{{.}}</dd>{{else}}<dd>none</dd>{{end}}
</dl>
</html>
`))

// pageHandler answers for a port of a container of which nothing is simulated
// but its being there.
func pageHandler(c Container, port int) http.Handler {
	p := page{Namespace: c.Namespace, Pod: c.Pod, Container: c.Name, Image: c.Image, Node: c.Node, Port: port}
	for _, d := range c.Devices {
		p.Devices = append(p.Devices, deviceText(d))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range []string{"/health", "/ready", "/live"} {
			if strings.HasPrefix(r.URL.Path, prefix) {
				ok(w, r)
				return
			}
		}
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = pageHTML.Execute(w, p) // the client may have gone
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		devices := "none"
		if len(p.Devices) > 0 {
			devices = strings.Join(p.Devices, "\n           ")
		}
		fmt.Fprintf(w, "This container is simulated by Berth; its image is not run.\npod        %s/%s\ncontainer  %s (%s), port %d\nnode       %s\ndevices    %s\n",
			p.Namespace, p.Pod, p.Container, p.Image, p.Port, p.Node, devices)
	})
}

// deviceText names one device for a person.
func deviceText(d sharing.Device) string {
	if d.Profile != "" {
		return fmt.Sprintf("%s (%s on GPU %d)", d.ID, d.Profile, d.GPU)
	}
	return fmt.Sprintf("%s (GPU %d)", d.ID, d.GPU)
}
