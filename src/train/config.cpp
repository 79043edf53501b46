#include "train/train.h"

namespace aerie {

void TrainConfig::fields(FieldList& v) {
  v("ttt_steps", ttt_steps, "steps of training-time test; the draft is taught to guess this many tokens ahead")
      .range(1, 64);
  v("draft_vocab", draft_vocab, "tokens the draft can propose; 0 = chosen from the data").range(0, 1 << 24);
  v("intermediate_size", intermediate_size, "width of the draft's MLP; 0 = the target's").range(0, 1 << 20);
  v("norm_before_residual", norm_before_residual, "the residual is the normed state (speculators)");
  v("norm_before_fc", norm_before_fc, "one RMSNorm over the target's states before fc (for targets with huge states)");
  v("init", init,
    "start of the weights: fitted to the data by regression, only the target's output matrix, or all random")
      .one_of({"fitted", "target", "random"});
  v("freeze_head", freeze_head,
    "keeps the output matrix as the target's: fewer weights to learn from few answers, and faster (speculators)");
  v("mask", mask, "which token's loss mask gates a slot: the predicted one, the step's input, or the slot's own")
      .one_of({"predicted", "input", "unshifted"});
  v("step_decay", step_decay, "weight of step k is step_decay^k").range(0, 1);
  v("epochs", epochs, "passes over the data").range(1, 1e6);
  v("max_steps", max_steps, "optimizer steps at most; 0 = epochs decide").range(0, 1e9);
  v("time_limit_s", time_limit_s, "seconds of training at most, learning rate fitted to it; 0 = none").range(0, 1e9);
  v("batch_tokens", batch_tokens, "tokens a step, whole samples").range(1, 1 << 24);
  v("max_length", max_length, "samples are cut to this many tokens").range(8, 1 << 24);
  v("lr", lr, "peak learning rate").range(0, 1);
  v("warmup_share", warmup_share, "share of the run in which the learning rate rises").range(0, 1);
  v("min_lr_share", min_lr_share, "learning rate at the end as a share of the peak").range(0, 1);
  v("beta1", beta1, "AdamW's mean").range(0, 1);
  v("beta2", beta2, "AdamW's mean of squares").range(0, 1);
  v("weight_decay", weight_decay, "AdamW's decay of matrices").range(0, 10);
  v("clip_norm", clip_norm, "largest norm of the gradient; 0 = no limit").range(0, 1e9);
  v("validation_share", validation_share, "share of the samples kept for validation, by a hash of their ids")
      .range(0, 0.9);
  v("validation_tokens", validation_tokens, "tokens looked at in one validation, at most").range(0, 1 << 30);
  v("seed", seed, "of weights and data order");
  v("eval_every", eval_every, "steps between validations; 0 = ten in a run").range(0, 1e9);
  v("checkpoint_every", checkpoint_every, "steps between checkpoints").range(1, 1e9);
  v("checkpoint_every_s", checkpoint_every_s, "seconds between checkpoints at most; 0 = steps decide").range(0, 1e9);
  v("threads", threads, "cores to use; 0 = all").range(0, 4096);
  v("device", device, "where to compute; this build's trainer runs on the CPU").one_of({"auto", "cpu", "cuda"});
}

}  // namespace aerie
