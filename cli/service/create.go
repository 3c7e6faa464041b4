package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	objects "berth.dev/berth/kube/serving"
)

// The values of --dry-run.
const (
	dryClient = "client"
	dryServer = "server"
)

// mostGPUs is how many GPUs a replica may ask for.
const mostGPUs = 16

// create is `berth service create`.
type create struct {
	command
	name, model, format, version, runtime string
	mig                                   string
	gpus, gpuMemory, least, most          int
	env, args                             []string
	dryRun, output                        string
}

func newCreate(o client.Options) *cobra.Command {
	c := &create{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "create NAME --model URI --format FORMAT [flags] [-- ARGUMENT...]",
		Short: "Create a model service",
		Long: "Create an InferenceService of a model on a volume (pvc://CLAIM/PATH) or at another place (s3://, gs://, hf://,\n" +
			"https://). Its server is chosen by the format; arguments after -- are added to those of the server. With --min 0 it\n" +
			"has no replicas while nothing is asked of it.",
		Example: "  berth service create mnist --model pvc://model-storage/ --format tensorflow --gpus 1\n" +
			"  berth service create llm --model hf://org/model --format huggingface --gpus 2 --min 0 --max 2 -- --dtype=half\n" +
			"  berth service create iris --model s3://models/iris --format sklearn --dry-run -o yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) == 0 || dash == 0 || dash != 1 && len(args) > 1 {
				return term.Usagef("%s takes one name, and arguments of the server after --", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.name, c.args = args[0], args[1:]
			return c.run(cmd.Context(), cmd.Flags().Changed("min"))
		},
	}
	c.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.model, "model", "", "where the model is: pvc://CLAIM/PATH, or a place at s3, gs, hf, or https")
	c.modelFlags(f)
	return cmd
}

// modelFlags adds the flags of all commands that create a service.
func (c *create) modelFlags(f *pflag.FlagSet) {
	f.StringVar(&c.format, "format", "", "format of the model: tensorflow, pytorch, onnx, huggingface, sklearn, xgboost, or another one with a runtime")
	f.StringVar(&c.version, "format-version", "", "version of the format (default: any)")
	f.StringVar(&c.runtime, "runtime", "", "runtime to use (default: by the format)")
	f.IntVar(&c.gpus, "gpus", 0, "GPUs of each replica")
	f.IntVar(&c.gpuMemory, "gpu-memory", 0, "share of one GPU for each replica, in GiB of its memory")
	f.StringVar(&c.mig, "mig", "", "MIG device of each replica, such as 1g.5gb")
	f.IntVar(&c.least, "min", 1, "replicas at least; 0 is none while nothing is asked")
	f.IntVar(&c.most, "max", 0, "replicas at most (default: --min)")
	f.StringArrayVar(&c.env, "env", nil, "environment variable of the server, as NAME=VALUE (repeatable)")
	f.StringVar(&c.dryRun, "dry-run", "", "client: create nothing; server: validate on the API server only; without a value it is client")
	f.Lookup("dry-run").NoOptDefVal = dryClient
	f.StringVarP(&c.output, "output", "o", "", "yaml, json, or name: print what is created")
}

// check refuses flags that cannot be understood.
func (c *create) check() error {
	switch {
	case c.dryRun != "" && c.dryRun != dryClient && c.dryRun != dryServer:
		return term.Usagef("invalid --dry-run %q: must be client or server", c.dryRun)
	case c.output != "" && c.output != "yaml" && c.output != "json" && c.output != term.OutputName:
		return term.Usagef("invalid --output %q: must be yaml, json, or name", c.output)
	case c.format == "":
		return term.Usagef("--format is missing: name the format of the model, such as tensorflow")
	case c.gpus < 0 || c.gpus > mostGPUs:
		return term.Usagef("invalid --gpus %d: must be between 0 and %d, the GPUs of each replica", c.gpus, mostGPUs)
	case c.gpuMemory < 0:
		return term.Usagef("invalid --gpu-memory %d: must be a number of GiB", c.gpuMemory)
	case min(c.gpus, 1)+min(c.gpuMemory, 1)+min(len(c.mig), 1) > 1:
		return term.Usagef("--gpus, --gpu-memory, and --mig exclude each other: choose one")
	case c.least < 0 || c.most < 0 || c.most > 0 && c.most < c.least:
		return term.Usagef("invalid --min %d --max %d: must be 0 <= min <= max", c.least, c.most)
	}
	for _, text := range c.env {
		if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
			return term.Usagef("invalid --env %q: must be NAME=VALUE", text)
		}
	}
	return nil
}

// object is the InferenceService.
func (c *create) object(namespace string, least bool) *unstructured.Unstructured {
	model := map[string]any{"modelFormat": map[string]any{"name": c.format}}
	set := func(field string, value any, is bool) {
		if is {
			model[field] = value
		}
	}
	if c.version != "" {
		model["modelFormat"].(map[string]any)["version"] = c.version
	}
	set("storageUri", c.model, c.model != "")
	set("runtime", c.runtime, c.runtime != "")
	var args, env []any
	for _, a := range c.args {
		args = append(args, a)
	}
	for _, text := range c.env {
		name, value, _ := strings.Cut(text, "=")
		env = append(env, map[string]any{"name": name, "value": value})
	}
	set("args", args, len(args) > 0)
	set("env", env, len(env) > 0)
	switch limits := map[string]any{}; {
	case c.gpus > 0:
		limits[api.ResourceGPU] = int64(c.gpus)
		model["resources"] = map[string]any{"limits": limits}
	case c.gpuMemory > 0:
		limits[api.ResourceGPUMemory] = int64(c.gpuMemory)
		model["resources"] = map[string]any{"limits": limits}
	case c.mig != "":
		limits[api.ResourceMIGPrefix+c.mig] = int64(1)
		model["resources"] = map[string]any{"limits": limits}
	}
	predictor := map[string]any{"model": model}
	if least {
		predictor["minReplicas"] = int64(c.least)
	}
	if c.most > 0 {
		predictor["maxReplicas"] = int64(c.most)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kserve.GroupVersion.String(), "kind": kserve.Kind, "metadata": map[string]any{"name": c.name, "namespace": namespace}, "spec": map[string]any{"predictor": predictor},
	}}
}

func (c *create) run(ctx context.Context, least bool) error {
	if err := c.check(); err != nil {
		return err
	}
	namespace, err := c.cluster.Namespace()
	if err != nil && c.dryRun != dryClient {
		return err
	}
	if namespace == "" {
		namespace = "default"
	}
	u := c.object(namespace, least)
	if err := judge(u); err != nil {
		return err
	}
	if c.dryRun != dryClient {
		s, err := c.connect()
		if err != nil {
			return err
		}
		options := metav1.CreateOptions{FieldManager: "berth"}
		if c.dryRun == dryServer {
			options.DryRun = []string{metav1.DryRunAll}
		}
		if u, err = s.in(namespace).Create(ctx, u, options); err != nil {
			return s.refused("create service "+namespace+"/"+c.name, "create", err)
		}
	}
	return c.print(u)
}

// judge refuses what the controller would refuse.
func judge(u *unstructured.Unstructured) error {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("write the service: %w", err)
	}
	o := &kserve.InferenceService{}
	if err := json.Unmarshal(raw, o); err != nil {
		return fmt.Errorf("write the service: %w", err)
	}
	if _, fault := objects.Of(o); fault != nil {
		return errors.New(fault.Message)
	}
	return nil
}

// print writes what is made in the form asked for.
func (c *create) print(u *unstructured.Unstructured) error {
	name := "inferenceservice.serving.kserve.io/" + u.GetName()
	suffix := map[string]string{dryClient: " (dry run)", dryServer: " (server dry run)"}[c.dryRun]
	switch c.output {
	case "":
		_, err := term.Printf(c.options.Out, "%s created%s\n", name, suffix)
		return err
	case term.OutputName:
		_, err := term.PrintLine(c.options.Out, name)
		return err
	}
	u.SetManagedFields(nil)
	var p printers.ResourcePrinter = &term.YAMLPrinter{}
	if c.output == "json" {
		p = &printers.JSONPrinter{}
	}
	return p.PrintObj(u, term.Exact(c.options.Out))
}
