package process

import (
	"net/url"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/outbound"
)

// ReadingsPolicy says what the readings of a cluster are shared with: see docs/metrics.md.
type ReadingsPolicy struct {
	Webhook           string   // a URL that is sent which alerts fire and end; "" is none
	Prometheus        string   // one that may read the same exporters: its URL, or auto for one in the cluster; "" is none
	RemoteWrite, OTLP []string // URLs that are sent all samples that are kept
	Credentials       *outbound.Credentials
	credentials       string // the file of Credentials; "" is none
}

func (p *ReadingsPolicy) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.Webhook, "alert-webhook", "", "URL to send alerts to that fire or end, in the format of Alertmanager's webhooks")
	f.StringVar(&p.Prometheus, "prometheus", "auto", "Prometheus to ask for the readings of exporters that it reads, in place of reading them: auto for one in the cluster, none, or a URL")
	f.StringArrayVar(&p.RemoteWrite, "remote-write", nil, "URL to send readings to by Prometheus' remote write, such as http://prometheus:9090/api/v1/write (repeatable)")
	f.StringArrayVar(&p.OTLP, "otlp", nil, "URL to send readings to by OTLP over HTTP, such as http://collector:4318 (repeatable)")
	f.StringVar(&p.credentials, "url-credentials", "", "file with the tokens, passwords, and certificates for these URLs")
}

func (p *ReadingsPolicy) check() error {
	if p.Webhook != "" && !isURL(p.Webhook) {
		return term.Usagef("invalid --alert-webhook %q: must be a URL such as https://chat.example.org/hook", p.Webhook)
	}
	switch {
	case p.Prometheus == "none":
		p.Prometheus = ""
	case p.Prometheus != "" && p.Prometheus != "auto" && !isURL(p.Prometheus):
		return term.Usagef("invalid --prometheus %q: must be auto, none, or a URL such as http://prometheus:9090", p.Prometheus)
	}
	for _, address := range p.RemoteWrite {
		if !isURL(address) {
			return term.Usagef("invalid --remote-write %q: must be a URL such as http://prometheus:9090/api/v1/write", address)
		}
	}
	for _, address := range p.OTLP {
		if !isURL(address) {
			return term.Usagef("invalid --otlp %q: must be a URL such as http://collector:4318", address)
		}
	}
	if p.credentials == "" {
		return nil
	}
	file, err := filepath.Abs(p.credentials) // a process in the background may have another folder
	if err != nil {
		return err
	}
	if p.Credentials, err = outbound.Read(file); err != nil {
		return term.Usagef("invalid --url-credentials: %v", err)
	}
	p.credentials = file
	return nil
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && slices.Contains([]string{"http", "https"}, u.Scheme)
}

// args are the flags that give p, for another process.
func (p *ReadingsPolicy) args() []string {
	out := []string{"--alert-webhook", p.Webhook, "--prometheus", p.Prometheus, "--url-credentials", p.credentials}
	for _, address := range p.RemoteWrite {
		out = append(out, "--remote-write", address)
	}
	for _, address := range p.OTLP {
		out = append(out, "--otlp", address)
	}
	return out
}
