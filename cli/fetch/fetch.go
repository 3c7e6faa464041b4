// Package fetch is `berth fetch`: a model downloaded into a folder.
package fetch

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/fetch"
)

// New makes `berth fetch`.
func New(o client.Options) *cobra.Command {
	var most string
	cmd := &cobra.Command{
		Use:   "fetch SRC DIR",
		Short: "Download a model from HTTP, S3, Google Cloud Storage, or Hugging Face into a folder",
		Long: "Download the model at SRC, an address as in storageUri of an InferenceService, into the folder DIR. A download that was interrupted goes on\n" +
			"where it ended, and what is there already is not downloaded again. A file has its name only when all of it is there and its checksum is right.\n" +
			"An archive (.tar, .tar.gz, .tgz, .zip) is unpacked. docs/tasks/download-models.md has the variables with credentials and endpoints.",
		Example: "  berth fetch https://models.example.com/mnist.tar.gz ./mnist\n" +
			"  berth fetch s3://models/mnist ./mnist\n" +
			"  berth fetch hf://google-bert/bert-base-uncased ./bert",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := resource.ParseQuantity(most)
			if err != nil || q.Value() <= 0 {
				return term.Usagef("--max-size %q is not a size; write one such as 100Gi", most)
			}
			return run(cmd.Context(), o, args[0], args[1], q.Value())
		},
	}
	cmd.Flags().StringVar(&most, "max-size", "1Ti", "download no more than this, and unpack no more than this")
	return cmd
}

func run(ctx context.Context, o client.Options, src, dir string, most int64) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	got, err := fetch.Fetch(ctx, src, dir, fetch.Options{MostBytes: most, Log: func(line string) { term.Printf(o.Out, "%s\n", line) }})
	if err != nil {
		return err
	}
	_, err = term.Printf(o.Out, "%s\n", got.Sentence(dir))
	return err
}
