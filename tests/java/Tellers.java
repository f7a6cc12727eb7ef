import java.time.Duration;
import java.util.Properties;
import java.util.Random;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Tellers of a bank: each has a transactional id, and a transfer is a transaction of two records.
 * Arguments: the servers, how many tellers, accounts and partitions there are, the number of the first transfer.
 * A line of input names the step at which all tellers are to wait from now on, an empty one lets them go on.
 */
public class Tellers {
    private static final Object LOCK = new Object();
    private static String waitAt = "";
    private static AtomicInteger next;

    public static void main(String[] arguments) throws Exception {
        next = new AtomicInteger(Integer.parseInt(arguments[4]));
        for (int number = 0; number < Integer.parseInt(arguments[1]); number++) {
            Teller teller = new Teller(arguments, number);
            teller.setDaemon(true);
            teller.start();
        }
        Scanner input = new Scanner(System.in);
        while (input.hasNextLine()) {
            String line = input.nextLine();
            synchronized (LOCK) {
                waitAt = line;
                LOCK.notifyAll();
            }
        }
    }

    private static void say(String what, int transfer) {
        synchronized (System.out) {
            System.out.println(what + " " + transfer);
            System.out.flush();
        }
    }

    private static class Teller extends Thread {
        private final Properties config = new Properties();
        private final Random random;
        private final int accounts;
        private final int partitions;

        Teller(String[] arguments, int number) {
            config.put("bootstrap.servers", arguments[0]);
            config.put("transactional.id", "teller-" + number);
            config.put("key.serializer", StringSerializer.class.getName());
            config.put("value.serializer", StringSerializer.class.getName());
            accounts = Integer.parseInt(arguments[2]);
            partitions = Integer.parseInt(arguments[3]);
            random = new Random(number + 31L * next.get());
        }

        @Override
        public void run() {
            while (true) {
                try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
                    producer.initTransactions();
                    while (true) {
                        transfer(producer);
                    }
                } catch (KafkaException error) {
                    System.err.println(getName() + ": " + error);
                } catch (Exception error) {
                    error.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
            }
        }

        /** Fails where the producer cannot say how its transaction has ended: another one goes on then. */
        private void transfer(KafkaProducer<String, String> producer) throws Exception {
            int transfer = next.getAndIncrement();
            int from = random.nextInt(accounts);
            int to = (from + 1 + random.nextInt(accounts - 1)) % accounts;
            int amount = 1 + random.nextInt(99);
            boolean commits = random.nextInt(5) > 0;
            say("begun", transfer);
            producer.beginTransaction();
            try {
                step("begun", transfer);
                send(producer, transfer, from, -amount);
                step("half", transfer);
                send(producer, transfer, to, amount);
                step("whole", transfer);
            } catch (KafkaException | ExecutionException error) {
                System.err.println(getName() + ": transfer " + transfer + " is aborted: " + error);
                commits = false;
            }
            if (commits) {
                step("ending", transfer);
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
            say(commits ? "committed" : "aborted", transfer);
            step("ended", transfer);
        }

        private void send(KafkaProducer<String, String> producer, int transfer, int account, int change) throws Exception {
            String value = "[" + transfer + "," + account + "," + change + "]";
            producer.send(new ProducerRecord<>("accounts", account % partitions, null, value)).get();
        }

        private void step(String name, int transfer) throws InterruptedException {
            synchronized (LOCK) {
                if (name.equals(waitAt)) {
                    say("at-" + name, transfer);
                }
                while (name.equals(waitAt)) {
                    LOCK.wait();
                }
            }
        }
    }
}
