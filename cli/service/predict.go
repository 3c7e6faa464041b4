package service

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	objects "berth.dev/berth/kube/serving"
)

// mostInput is how large a request may be, in bytes: the API server takes no larger ones.
const mostInput = 3 << 20

// predict is `berth service predict`.
type predict struct {
	command
	file, path string
	timeout    time.Duration
}

func newPredict(o client.Options) *cobra.Command {
	p := &predict{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "predict NAME -f FILE",
		Short: "Send a request to a model service, and print its answer",
		Long: "Send a file of JSON to a service through the API server, and print the answer. The path is that of the service's\n" +
			"protocol: /v1/models/NAME:predict, /v2/models/NAME/infer, or /openai/v1/chat/completions for a language model\n" +
			"and a file with messages. It needs the right to create services/proxy.",
		Example:           "  berth service predict mnist -f image.json\n  echo '{\"instances\": [[1, 2]]}' | berth service predict iris -f -",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	p.addFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&p.file, "filename", "f", "", "file with the request; - is standard input")
	f.StringVar(&p.path, "path", "", "path to send it to (default: by the protocol of the service)")
	f.DurationVar(&p.timeout, "timeout", time.Minute, "give up after this time; 0 never does")
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

func (p *predict) run(ctx context.Context, name string) error {
	body, err := p.read()
	if err != nil {
		return err
	}
	s, err := p.connect()
	if err != nil {
		return err
	}
	o, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	if o.written.Service.Stopped {
		return fmt.Errorf("%s is stopped; `%s service start %s` starts it", o.at(), s.options.Name, name)
	}
	path := p.path
	if path == "" {
		path = objects.PredictPath(o.written, body)
	}
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	way, err := s.way(ctx, name)
	if err != nil {
		return err
	}
	request := s.CoreV1().RESTClient().Post().AbsPath(append([]string{"/api/v1"}, way...)...).Suffix(path).SetHeader("Content-Type", "application/json").Body(body)
	answer, err := request.DoRaw(ctx)
	if err != nil {
		return p.failed(s, o, request, answer, err)
	}
	_, err = s.options.Out.Write(append([]byte(strings.TrimRight(string(answer), "\n")), '\n'))
	return err
}

// read reads the request.
func (p *predict) read() ([]byte, error) {
	in := p.options.In
	if p.file != "-" {
		f, err := os.Open(p.file)
		if err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, mostInput+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if len(body) > mostInput {
		return nil, fmt.Errorf("the request is larger than 3 MiB, which the API server does not take; send it to the URL of the service from a pod")
	}
	return body, nil
}

// failed says why there is no answer: in the server's words, or what the service waits for.
func (p *predict) failed(s *services, o *service, request *rest.Request, answer []byte, err error) error {
	if text := strings.TrimSpace(string(answer)); text != "" {
		return fmt.Errorf("%s answers %s: %s", o.at(), request.URL().Path[strings.Index(request.URL().Path, "/proxy")+len("/proxy"):], text)
	}
	if c := o.Status.Condition("Ready"); c != nil && c.Status != corev1.ConditionTrue {
		return fmt.Errorf("%s does not answer: %s", o.at(), term.Block(o.message()))
	}
	return s.refused("ask "+o.at(), "create", err)
}
